"""PULL_MESSAGE: messages of one queue from an offset on, or a place to wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ariane.broker.pull.answer import found_head, pull_fields
from ariane.broker.pull.longpoll import Parked
from ariane.broker.pull.offset_moved import offset_moved_event
from ariane.broker.pull.subscriptions import Subscriptions
from ariane.broker.pull.target import PullTarget, PullTargets
from ariane.broker.stats.counting import GetCell
from ariane.errors import ResponseError
from ariane.protocol.bodies import SubscriptionGroupConfig
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import JSON, Command
from ariane.protocol.fast.pulling import Pulling, PullKind, pulling_in
from ariane.remoting import Connection, Handler
from ariane.store import GetResult, GetStatus
from ariane.store.results import MessageFilter

if TYPE_CHECKING:
    from ariane.broker.server import Broker

COMMIT: Final = 1  # bits of a pull's sys flag
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4
CLASS_FILTER: Final = 8

_MASTER: Final = 0
_FOUND: Final = GetStatus.FOUND
_CODES: Final = {
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullHandler:
    """Gives messages out."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store
        self._offsets = broker.offsets
        self._targets = PullTargets(broker)
        self._stats = broker.stats
        self._subscriptions = Subscriptions(broker)
        self._take_options()
        broker.on_options.append(lambda _: self._take_options())
        broker.longpoll.resume = self.resume

    def _take_options(self) -> None:
        options = self._broker.options
        self._is_slave = options.broker_role == "SLAVE"
        self._slave_read = options.slave_read_enable
        self._disk_fall = options.disk_fall_recorded

    def pull(self, connection: Connection, request: Command) -> Command | None:
        """Answer with messages, park the pull, or say why not."""
        return self._pull(connection, request, pulling_in(request), may_wait=True)

    def resume(self, parked: Parked) -> None:
        """Answer a pull that waited, whatever there is now."""
        connection, request = parked.connection, parked.request
        try:
            response = self._pull(connection, request, pulling_in(request), may_wait=False)
        except ResponseError as error:  # what it pulls from has changed meanwhile
            response = request.reply(error.code, remark=error.remark)
        if response is not None:
            connection.answer(request, response)

    def _pull(self, connection: Connection, request: Command, pull: Pulling, *, may_wait: bool) -> Command | None:
        kind, queue_id = pull.kind, pull.queue_id
        target = self._targets.get(kind)
        if not 0 <= queue_id < target.read_queues:
            raise _illegal_queue(pull, target, connection)
        filter = self._filter(kind, target)
        offsets = self._offsets
        moved = offsets.take_pending(target.key, queue_id) if offsets.has_pending else None
        if moved is not None and moved != pull.queue_offset:
            return self._send_elsewhere(request, pull, moved)
        offsets.reading(target.key, queue_id, connection.peer)
        most = max(kind.max_msg_nums, 1)  # as in Apache's broker the first message is never too much
        lane = target.lane(queue_id)
        result = self._store.get_from(lane.queue, pull.queue_offset, most, filter)
        if result.status is _FOUND:
            self._count(kind, lane.cell, result)
            self._answer_found(connection, request, self._suggestion(target.group, result), result)
            response = None
        else:
            response = self._answer_missing(connection, request, pull, target.group, result, filter, may_wait)
        if may_wait and kind.sys_flag & COMMIT and not self._is_slave:
            offsets.commit_by_key(target.key, queue_id, pull.commit_offset)
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
        """Say why there are no messages, or have the pull wait for them."""
        status = result.status
        code = _CODES.get(status)
        if code is None:  # the queue is empty or not there yet
            code = ResponseCode.PULL_OFFSET_MOVED if pull.queue_offset else ResponseCode.PULL_NOT_FOUND
        if code == ResponseCode.PULL_NOT_FOUND and may_wait and pull.kind.sys_flag & SUSPEND:
            self._park(connection, request, pull, filter)
            return None
        if code == ResponseCode.PULL_OFFSET_MOVED:
            code = self._offset_moved(pull, result)
        suggested = self._suggestion(group, result)
        fields = pull_fields(suggested, result.next_offset, result.min_offset, result.max_offset)
        return request.reply(code, fields, remark=status.value)

    def _answer_found(self, connection: Connection, request: Command, suggested: int, result: GetResult) -> None:
        """Messages go out from where they lie in the log."""
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
            if result.suggest_slave:  # it lies further back than memory reaches
                self._stats.got_from_disk(kind.consumer_group, kind.topic, result.count, result.bytes)

    def _park(self, connection: Connection, request: Command, pull: Pulling, filter: MessageFilter | None) -> None:
        options = self._broker.options
        long = options.long_polling_enable
        patience = pull.kind.suspend_timeout_millis if long else options.short_polling_time_mills
        deadline = self._broker.env.clock.monotonic() + patience / 1000
        self._broker.longpoll.park(
            Parked(connection, request, pull.kind.topic, pull.queue_id, pull.queue_offset, filter, deadline)
        )

    def _suggestion(self, group: SubscriptionGroupConfig, result: GetResult) -> int:
        """Which broker to pull from next; always the master unless slaves may be read."""
        if not self._slave_read:
            return _MASTER
        return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id

    def _offset_moved(self, pull: Pulling, result: GetResult) -> ResponseCode:
        """A master corrects the reader and notes it for operators; a slave that may lag sends it back to try again."""
        options = self._broker.options
        if options.broker_role == "SLAVE" and not options.offset_check_in_slave:
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        self._broker.put(offset_moved_event(self._broker, pull, result.next_offset))
        return ResponseCode.PULL_OFFSET_MOVED

    def _send_elsewhere(self, request: Command, pull: Pulling, offset: int) -> Command:
        """The group was reset while it was reading: its next pull begins where it was told to."""
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


def handlers(broker: Broker) -> dict[int, Handler]:
    return {RequestCode.PULL_MESSAGE: PullHandler(broker).pull}
