"""PULL_MESSAGE: messages of one queue from an offset on; a pull that finds none may wait for them."""

from __future__ import annotations

from typing import Final

from ariane.broker.config import BrokerOptions
from ariane.broker.config.live import LiveOptions
from ariane.broker.message_writer import MessageWriter
from ariane.broker.pull.answer import found_head, pull_fields
from ariane.broker.pull.longpoll import LongPoll, Parked
from ariane.broker.pull.subscriptions import Subscriptions
from ariane.broker.pull.target import PullTarget, PullTargets
from ariane.broker.role import Role
from ariane.broker.stats.counting import BrokerStats, GetCell
from ariane.broker.tables.offsets import OffsetTable
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.filter import GuardedFilter
from ariane.message import KEYS, OFFSET_MOVED_TOPIC, TAGS
from ariane.protocol import fastjson
from ariane.protocol.bodies import SubscriptionGroupConfig
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import JSON, Command
from ariane.protocol.fast.pulling import Pulling, PullKind, pulling_in
from ariane.protocol.headers.consume import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import Unit
from ariane.remoting import Connection
from ariane.store import GetResult, GetStatus, MessageStore
from ariane.store.results import MessageFilter

_MASTER: Final = 0
_FOUND: Final = GetStatus.FOUND
_LARGEST_PARKED: Final = 1 << 16  # largest request in bytes that is parked; a larger one is answered at once
_CODES: Final = {
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullHandler:
    """Answers pulls with messages from the log, or parks them."""

    def __init__(
        self,
        store: MessageStore,
        targets: PullTargets,
        subscriptions: Subscriptions,
        longpoll: LongPoll,
        offsets: OffsetTable,
        writer: MessageWriter,
        stats: BrokerStats,
        role: Role,
        options: LiveOptions,
        clock: Clock,
    ) -> None:
        self._store = store
        self._targets = targets
        self._subscriptions = subscriptions
        self._longpoll = longpoll
        self._offsets = offsets
        self._writer = writer
        self._stats = stats
        self._role = role
        self._options = options
        self._clock = clock
        self._is_slave = role.is_slave
        role.on_change(self._role_changed)
        options.follow(self._take_options)
        longpoll.resume = self.resume

    def _take_options(self, options: BrokerOptions) -> None:
        self._slave_read = options.slave_read_enable
        self._disk_fall = options.disk_fall_recorded

    def _role_changed(self) -> None:
        self._is_slave = self._role.is_slave

    def pull(self, connection: Connection, request: Command) -> Command | None:
        """Answer with messages, park the pull, or answer with the reason why there are none."""
        return self._pull(connection, request, pulling_in(request), may_wait=True)

    def resume(self, parked: Parked) -> None:
        """Answer a parked pull with the messages available now."""
        connection, request = parked.connection, parked.request
        try:
            response = self._pull(connection, request, pulling_in(request), may_wait=False)
        except ResponseError as error:  # topic, group or options have changed since
            response = request.reply(error.code, remark=error.remark)
        if response is not None:
            connection.answer(request, response)

    def _pull(self, connection: Connection, request: Command, pull: Pulling, *, may_wait: bool) -> Command | None:
        kind, queue_id = pull.kind, pull.queue_id
        target = self._targets.get(kind, connection)
        if not 0 <= queue_id < target.read_queues:
            raise _illegal_queue(pull, target, connection)
        filter = self._filter(kind, target)
        offsets = self._offsets
        moved = offsets.take_pending(target.key, queue_id) if offsets.has_pending else None
        if moved is not None and moved != pull.queue_offset:
            return self._send_elsewhere(request, pull, moved)
        offsets.reading(target.key, queue_id, connection.peer)
        most = max(kind.max_msg_nums, 1)  # as in Apache's broker, the first message is returned whatever its size
        lane = target.lane(queue_id)
        result = self._store.get_from(lane.queue, pull.queue_offset, most, filter)
        if type(filter) is GuardedFilter:
            _take_stop(filter, pull, result)
        if result.status is _FOUND:
            self._count(kind, lane.cell, result)
            self._answer_found(connection, request, self._suggestion(target.group, result), result)
            response = None
        else:
            response = self._answer_missing(connection, request, pull, target.group, result, filter, may_wait)
        if may_wait and kind.sys_flag & COMMIT_OFFSET and not self._is_slave:
            offsets.commit_by_key(target.key, queue_id, pull.commit_offset, creator=connection)
        return response

    def _filter(self, kind: PullKind, target: PullTarget) -> MessageFilter | None:
        if not kind.sys_flag & SUBSCRIPTION:
            return self._subscriptions.filter_of(kind, target.group)
        if kind is not target.filtered:
            target.filter = self._subscriptions.filter_in(kind)
            target.filtered = kind
        return target.filter

    def _answer_missing(
        self,
        connection: Connection,
        request: Command,
        pull: Pulling,
        group: SubscriptionGroupConfig,
        result: GetResult,
        filter: MessageFilter | None,
        may_wait: bool,
    ) -> Command | None:
        """Answer why there are no messages, or park the pull."""
        status = result.status
        code = _CODES.get(status)
        if code is None:  # the queue is empty or not there yet
            code = ResponseCode.PULL_OFFSET_MOVED if pull.queue_offset else ResponseCode.PULL_NOT_FOUND
        waits = may_wait and pull.kind.sys_flag & SUSPEND and request.wire_size() <= _LARGEST_PARKED
        if code == ResponseCode.PULL_NOT_FOUND and waits:
            self._park(connection, request, pull, filter)
            return None
        if code == ResponseCode.PULL_OFFSET_MOVED:
            code = self._offset_moved(pull, result)
        suggested = self._suggestion(group, result)
        fields = pull_fields(suggested, result.next_offset, result.min_offset, result.max_offset)
        return request.reply(code, fields, remark=status.value)

    def _answer_found(self, connection: Connection, request: Command, suggested: int, result: GetResult) -> None:
        """Answer with slices of the log, without a copy."""
        offset, low, high, length = result.next_offset, result.min_offset, result.max_offset, result.bytes
        if request.serialization == JSON:
            head = found_head(request.opaque, suggested, offset, low, high, length)
            connection.answer_encoded_parts(request, head, result.slices, length)
        else:
            response = request.reply(0, pull_fields(suggested, offset, low, high), remark=_FOUND.value)
            connection.answer_parts(request, response, result.slices, length)

    def _count(self, kind: PullKind, cell: GetCell, result: GetResult) -> None:
        cell.add(result.count, result.bytes, 0)
        if self._disk_fall:
            cell.behind = result.behind
            if result.suggest_slave:  # the messages are no longer in memory
                self._stats.got_from_disk(kind.consumer_group, kind.topic, result.count, result.bytes)

    def _park(self, connection: Connection, request: Command, pull: Pulling, filter: MessageFilter | None) -> None:
        options = self._options.current
        long = options.long_polling_enable
        patience = pull.kind.suspend_timeout_millis if long else options.short_polling_time_mills
        deadline = self._clock.monotonic() + patience / 1000
        self._longpoll.park(
            Parked(connection, request, pull.kind.topic, pull.queue_id, pull.queue_offset, filter, deadline)
        )

    def _suggestion(self, group: SubscriptionGroupConfig, result: GetResult) -> int:
        """The broker to pull from next: the master, unless slaves may be read."""
        if not self._slave_read:
            return _MASTER
        return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id

    def _offset_moved(self, pull: Pulling, result: GetResult) -> ResponseCode:
        """A master corrects the offset and stores an event for operators; a slave may lag, so it asks for a retry."""
        options = self._options.current
        if self._is_slave and not options.offset_check_in_slave:
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        kind = pull.kind
        event = {
            "consumerGroup": kind.consumer_group,
            "messageQueue": {"brokerName": options.broker_name, "queueId": pull.queue_id, "topic": kind.topic},
            "offsetNew": result.next_offset,
            "offsetRequest": pull.queue_offset,
        }
        properties = encode_properties({KEYS: kind.consumer_group, TAGS: kind.consumer_group})
        self._writer.append(
            Unit(
                OFFSET_MOVED_TOPIC.encode(),
                fastjson.dumps(event),
                properties.encode(),
                born_time=self._clock.now_ms(),
                born_host=self._writer.host,
            )
        )
        return ResponseCode.PULL_OFFSET_MOVED

    def _send_elsewhere(self, request: Command, pull: Pulling, offset: int) -> Command:
        """Answer a pull of a group that was reset: its next pull begins at the new offset."""
        low = self._store.min_offset(pull.kind.topic, pull.queue_id)
        high = self._store.max_offset(pull.kind.topic, pull.queue_id)
        fields = pull_fields(_MASTER, offset, low, high)
        return request.reply(ResponseCode.PULL_OFFSET_MOVED, fields, remark="OFFSET_RESET")


def _illegal_queue(pull: Pulling, target: PullTarget, connection: Connection) -> ResponseError:
    remark = (
        f"queueId[{pull.queue_id}] is illegal, topic:[{pull.kind.topic}] "
        f"topicConfig.readQueueNums:[{target.read_queues}] consumer:[/{connection.peer}]"
    )
    return ResponseError(ResponseCode.SYSTEM_ERROR, remark)


def _take_stop(filter: GuardedFilter, pull: Pulling, result: GetResult) -> None:
    """Let the next pull begin where the filter stopped; refuse this one when it stopped at its first message."""
    stop = filter.take_stop()
    if stop is None:
        return
    result.next_offset = stop.offset
    if result.status is _FOUND or stop.offset > pull.queue_offset:
        return
    remark = stop.remark(pull.kind.consumer_group, pull.kind.topic, pull.queue_id)
    raise ResponseError(ResponseCode.SYSTEM_ERROR if stop.failure else ResponseCode.SYSTEM_BUSY, remark)
