"""Requests for offsets: those that a group has committed, and those of a queue."""

from ariane.broker.config.live import LiveOptions
from ariane.broker.names import check_group, check_topic
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import NOT_CONFIRMED, KeptTable
from ariane.broker.tables.queues import Queues
from ariane.errors import ResponseError
from ariane.protocol.codes import ResponseCode
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
from ariane.remoting import Connection
from ariane.store import MessageStore

RESET_BEFORE = "Offset has been previously reset"
"""What Apache's broker answers, with success, to a commit that a reset by the broker alone overtook."""


class OffsetsHandler:
    """Answers queries for offsets, and commits them."""

    def __init__(
        self,
        offsets: OffsetTable,
        queues: Queues,
        groups: GroupTable,
        store: MessageStore,
        options: LiveOptions,
        file: KeptTable,
    ) -> None:
        self._file = file
        self._offsets = offsets
        self._queues = queues
        self._groups = groups
        self._store = store
        self._options = options

    def query(self, _: Connection, request: Command) -> Command:
        """The committed offset; without one, 0 if the queue still starts at 0 and that message is in memory."""
        h = QueryConsumerOffsetRequest.parse(request.fields)
        store = self._store
        offset = self._offsets.get(h.consumer_group, h.topic, h.queue_id)
        if offset < 0:
            first = store.queue_entries(h.topic, h.queue_id, 0, 1)
            on_disk = bool(first) and store.log_max - first[0][0] > store.options.memory_for_messages
            if on_disk or store.min_offset(h.topic, h.queue_id) > 0:
                remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                raise ResponseError(ResponseCode.QUERY_NOT_FOUND, remark)
            offset = 0
        return request.reply(fields=OffsetResponse(offset).fields())

    def update(self, connection: Connection, request: Command) -> Command | None:
        """Commit an offset. A two-way request may move it back; a one-way request may be late and may not.

        In a DLedger group a two-way request is answered when a majority has the offset. Apache's broker keeps every
        commit; here one for a topic, queue or group that does not exist is refused.
        """
        h = request.parsed(UpdateConsumerOffsetRequest)
        check_group(h.consumer_group)
        check_topic(h.topic)
        if h.commit_offset < 0 or h.queue_id < 0:
            remark = f"queueId[{h.queue_id}] or commitOffset[{h.commit_offset}] is illegal"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        if not self._queues.exists(h.topic, h.queue_id):
            remark = f"topic[{h.topic}] or its queue {h.queue_id} not exist, create it before you commit an offset"
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, remark)
        options = self._options.current
        auto_create = options.auto_create_subscription_group
        if self._groups.find(h.consumer_group, auto_create=auto_create, by=connection) is None:
            remark = f"subscription group [{h.consumer_group}] does not exist, create it with mqadmin updateSubGroup"
            raise ResponseError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        self._offsets.check_room(h.consumer_group, h.topic, connection)
        kept = self._offsets.commit(
            h.consumer_group,
            h.topic,
            h.queue_id,
            h.commit_offset,
            by=connection.peer,
            explicit=not request.is_oneway,
            creator=connection,
        )
        if not kept and self._offsets.awaits_reset(h.consumer_group, h.topic, h.queue_id):
            return request.reply(remark=RESET_BEFORE)
        if request.is_oneway or self._file.promise is None:
            return request.reply()

        def recorded(ok: bool) -> None:
            answer = request.reply() if ok else request.reply(ResponseCode.SYSTEM_ERROR, remark=NOT_CONFIRMED)
            connection.answer(request, answer)

        self._file.when_saved(recorded)
        return None

    def max_offset(self, _: Connection, request: Command) -> Command:
        """The next offset of a queue."""
        h = GetMaxOffsetRequest.parse(request.fields)
        return request.reply(fields=OffsetResponse(self._store.max_offset(h.topic, h.queue_id)).fields())

    def min_offset(self, _: Connection, request: Command) -> Command:
        """The first offset of a queue."""
        h = GetMinOffsetRequest.parse(request.fields)
        return request.reply(fields=OffsetResponse(self._store.min_offset(h.topic, h.queue_id)).fields())

    def by_time(self, _: Connection, request: Command) -> Command:
        """The offset of the message stored at a time."""
        h = SearchOffsetRequest.parse(request.fields)
        offset = self._store.offset_by_time(h.topic, h.queue_id, h.timestamp)
        return request.reply(fields=OffsetResponse(offset).fields())

    def earliest_time(self, _: Connection, request: Command) -> Command:
        """The store time of a queue's first message."""
        h = GetEarliestMsgStoretimeRequest.parse(request.fields)
        time = self._store.earliest_time(h.topic, h.queue_id)
        return request.reply(fields=GetEarliestMsgStoretimeResponse(time).fields())
