"""Headers of consuming: pulls, offsets, groups, queries, and what a broker asks of a consumer."""

from typing import Final

import msgspec

from ariane.protocol.headers.header import Header, Int32, Int64

COMMIT_OFFSET: Final = 1  # bits of a pull's sys flag
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4
CLASS_FILTER: Final = 8


class PullMessageRequest(Header):
    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None


class PullMessageResponse(Header):
    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64


class QueryConsumerOffsetRequest(Header):
    consumer_group: str
    topic: str
    queue_id: Int32


class UpdateConsumerOffsetRequest(Header):
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class OffsetResponse(Header):
    """The response to queries for an offset: consumer, min, max, by time."""

    offset: Int64


class GetMaxOffsetRequest(Header):
    topic: str
    queue_id: Int32


class GetMinOffsetRequest(Header):
    topic: str
    queue_id: Int32


class SearchOffsetRequest(Header):
    topic: str
    queue_id: Int32
    timestamp: Int64


class GetEarliestMsgStoretimeRequest(Header):
    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponse(Header):
    timestamp: Int64


class GetConsumerListByGroupRequest(Header):
    consumer_group: str


class UnregisterClientRequest(Header):
    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class NotifyConsumerIdsChangedRequest(Header):
    consumer_group: str


class QueryMessageRequest(Header):
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64


class QueryMessageResponse(Header):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequest(Header):
    offset: Int64


class ResetOffsetRequest(Header):
    """INVOKE_BROKER_TO_RESET_OFFSET, and RESET_CONSUMER_CLIENT_OFFSET, which relays it to the consumer."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False


class GetConsumerStatusRequest(Header):
    topic: str
    group: str
    client_addr: str | None = None


class GetConsumerRunningInfoRequest(Header):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequest(Header):
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
