"""Offsets: what a group has committed, and what a queue has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.names import check_group, check_topic
from ariane.errors import ResponseError
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker


class OffsetsHandler:
    """Answers questions for offsets and takes commits."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store

    def query(self, _: Connection, request: Command) -> Command:
        """The committed offset. A group without one begins at 0 where the queue still begins there, and in memory."""
        h = QueryConsumerOffsetRequest.parse(request.fields)
        offset = self._broker.offsets.get(h.consumer_group, h.topic, h.queue_id)
        if offset < 0:
            low = self._store.min_offset(h.topic, h.queue_id)
            if low > 0 or self._left_memory(h.topic, h.queue_id):
                remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                raise ResponseError(ResponseCode.QUERY_NOT_FOUND, remark)
            offset = 0
        return request.reply(fields=OffsetResponse(offset).fields())

    def _left_memory(self, topic: str, queue_id: int) -> bool:
        """Whether the queue's first message lies so far back in the log that it must be read from the disk."""
        entries = self._store.queue_entries(topic, queue_id, 0, 1)
        return bool(entries) and self._store.log_max - entries[0][0] > self._store.options.memory_for_messages

    def update(self, connection: Connection, request: Command) -> Command:
        """Commit. A request that wants an answer is somebody's decision; a one-way one may be late news.

        Apache's broker keeps what anybody commits; here a topic, a queue and a group that do not exist are refused.
        """
        h = request.parsed(UpdateConsumerOffsetRequest)
        check_group(h.consumer_group)
        check_topic(h.topic)
        if h.commit_offset < 0 or h.queue_id < 0:
            remark = f"queueId[{h.queue_id}] or commitOffset[{h.commit_offset}] is illegal"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        broker = self._broker
        if not broker.queues.exists(h.topic, h.queue_id):
            remark = f"topic[{h.topic}] or its queue {h.queue_id} not exist, create it before you commit an offset"
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, remark)
        auto_create = broker.options.auto_create_subscription_group
        if broker.groups.find(h.consumer_group, auto_create=auto_create) is None:
            remark = f"subscription group [{h.consumer_group}] does not exist, create it with mqadmin updateSubGroup"
            raise ResponseError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if broker.offsets.is_full(h.consumer_group, h.topic):
            remark = (
                f"the broker keeps offsets of {broker.options.consumer_offset_max} groups and topics "
                "(consumerOffsetMax) and no more; delete unused groups"
            )
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        broker.offsets.commit(
            h.consumer_group, h.topic, h.queue_id, h.commit_offset, by=connection.peer, explicit=not request.is_oneway
        )
        return request.reply()

    def max_offset(self, _: Connection, request: Command) -> Command:
        h = GetMaxOffsetRequest.parse(request.fields)
        return request.reply(fields=OffsetResponse(self._store.max_offset(h.topic, h.queue_id)).fields())

    def min_offset(self, _: Connection, request: Command) -> Command:
        h = GetMinOffsetRequest.parse(request.fields)
        return request.reply(fields=OffsetResponse(self._store.min_offset(h.topic, h.queue_id)).fields())

    def by_time(self, _: Connection, request: Command) -> Command:
        h = SearchOffsetRequest.parse(request.fields)
        offset = self._store.offset_by_time(h.topic, h.queue_id, h.timestamp)
        return request.reply(fields=OffsetResponse(offset).fields())

    def earliest_time(self, _: Connection, request: Command) -> Command:
        h = GetEarliestMsgStoretimeRequest.parse(request.fields)
        time = self._store.earliest_time(h.topic, h.queue_id)
        return request.reply(fields=GetEarliestMsgStoretimeResponse(time).fields())


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = OffsetsHandler(broker)
    return {
        RequestCode.QUERY_CONSUMER_OFFSET: handler.query,
        RequestCode.UPDATE_CONSUMER_OFFSET: handler.update,
        RequestCode.GET_MAX_OFFSET: handler.max_offset,
        RequestCode.GET_MIN_OFFSET: handler.min_offset,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: handler.by_time,
        RequestCode.GET_EARLIEST_MSG_STORETIME: handler.earliest_time,
    }
