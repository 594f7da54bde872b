"""Bodies of statistics and diagnosis. Those keyed by a message queue are written as fastjson writes them."""

from typing import Any, Self

import msgspec

from ariane.errors import ProtocolError
from ariane.message import MessageQueue
from ariane.protocol import fastjson
from ariane.protocol.bodies.body import Body, QueueKey, queue_as_key, queue_from_key
from ariane.protocol.bodies.groups import SubscriptionData


class TopicOffset(Body):
    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class OffsetWrapper(Body):
    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0


class ProcessQueueInfo(Body):
    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    dropped: bool = msgspec.field(default=False, name="droped")
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class ConsumeStatus(Body):
    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: int = 0


class QueueKeyed(Body):
    """A body one of whose members is a map keyed by message queues."""

    @classmethod
    def decode(cls, body: bytes) -> Self:
        return cls.from_builtins(fastjson.loads(body))

    @classmethod
    def from_builtins(cls, value: Any) -> Self:
        keyed = value.pop(cls._keyed_member(), None) or {} if isinstance(value, dict) else {}
        decoded = super().from_builtins(value)
        if not isinstance(keyed, dict):
            raise ProtocolError(f"bad body for {cls.__name__}: {cls._keyed_member()} is no object")
        item = cls._item()
        try:
            table = {queue_from_key(key): msgspec.convert(v, item, strict=False) for key, v in keyed.items()}
        except (msgspec.ValidationError, RecursionError) as error:
            raise ProtocolError(f"bad body for {cls.__name__}: {error}") from None
        setattr(decoded, cls.__struct_fields__[0], table)
        return decoded

    def encode(self) -> bytes:
        return fastjson.dumps(self.members())

    def members(self) -> dict[str, Any]:
        """The body as values that `fastjson.dumps` takes."""
        first = self.__struct_fields__[0]
        members: dict[str, Any] = {}
        for attribute, name in zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True):
            value = getattr(self, attribute)
            if attribute == first:
                members[name] = {queue_as_key(queue): msgspec.to_builtins(item) for queue, item in value.items()}
            elif value is not None:
                members[name] = msgspec.to_builtins(value, str_keys=True)
        return members

    @classmethod
    def _keyed_member(cls) -> str:
        return cls.__struct_encode_fields__[0]

    @classmethod
    def _item(cls) -> Any:
        return int


class TopicStatsTable(QueueKeyed):
    offset_table: dict[MessageQueue, TopicOffset] = {}

    @classmethod
    def _item(cls) -> Any:
        return TopicOffset


class ConsumeStats(QueueKeyed):
    offset_table: dict[MessageQueue, OffsetWrapper] = {}
    consume_tps: float = 0.0

    @classmethod
    def _item(cls) -> Any:
        return OffsetWrapper


class ResetOffsetBody(QueueKeyed):
    offset_table: dict[MessageQueue, int] = {}


class GetConsumerStatusBody(QueueKeyed):
    message_queue_table: dict[MessageQueue, int] = {}
    consumer_table: dict[str, dict[str, int]] = {}


class ConsumerRunningInfo(QueueKeyed):
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    status_table: dict[str, ConsumeStatus] = {}
    jstack: str | None = None

    @classmethod
    def _item(cls) -> Any:
        return ProcessQueueInfo


class ConsumeMessageDirectlyResult(Body):
    order: bool = False
    auto_commit: bool = True
    consume_result: str = "CR_SUCCESS"
    remark: str | None = None
    spent_time_mills: int = 0


class BrokerStatsItem(Body):
    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    stats_minute: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)


class ConsumeQueueData(Body):
    physic_offset: int
    physic_size: int
    tags_code: int
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(Body):
    queue_data: list[ConsumeQueueData] = []
    max_queue_index: int = 0
    min_queue_index: int = 0
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


class QueueTimeSpan(Body):
    message_queue: QueueKey
    min_time_stamp: int
    max_time_stamp: int
    consume_time_stamp: int
    delay_time: int


class QueryConsumeTimeSpanBody(Body):
    consume_time_span_set: list[QueueTimeSpan] = []


class QueryCorrectionOffsetBody(Body):
    correction_offsets: dict[int, int] = {}
