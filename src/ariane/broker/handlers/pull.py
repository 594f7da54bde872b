"""PULL_MESSAGE: messages of one queue from an offset on, or a place to wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ariane.broker.longpoll import Parked
from ariane.broker.offset_moved import offset_moved_event
from ariane.broker.offsets import offset_key
from ariane.broker.pull_answer import found_head, pull_fields
from ariane.broker.send_target import FAQ
from ariane.broker.subscriptions import Subscriptions
from ariane.errors import ResponseError
from ariane.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from ariane.protocol.bodies.topics import READ
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import JSON, Command
from ariane.protocol.headers import PullMessageRequest
from ariane.protocol.pulling import Pulling, pulling_of
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
        self._groups = broker.groups
        self._topics = broker.topics
        self._stats = broker.stats
        self._subscriptions = Subscriptions(broker)
        self._take_options()
        broker.on_options.append(lambda _: self._take_options())
        broker.longpoll.resume = self.resume

    def _take_options(self) -> None:
        options = self._broker.options
        self._may_read = bool(options.broker_permission & READ)
        self._auto_create = options.auto_create_subscription_group
        self._is_slave = options.broker_role == "SLAVE"
        self._slave_read = options.slave_read_enable
        self._disk_fall = options.disk_fall_recorded

    def pull(self, connection: Connection, request: Command) -> Command | None:
        """Answer with messages, park the pull, or say why not."""
        return self._pull(connection, request, _pulling(request), may_wait=True)

    def resume(self, parked: Parked) -> None:
        """Answer a pull that waited, whatever there is now."""
        connection, request = parked.connection, parked.request
        try:
            response = self._pull(connection, request, _pulling(request), may_wait=False)
        except ResponseError as error:  # what it pulls from has changed meanwhile
            response = request.reply(error.code, remark=error.remark)
        if response is not None:
            connection.answer(request, response)

    def _pull(self, connection: Connection, request: Command, header: Pulling, *, may_wait: bool) -> Command | None:
        group, topic = self._check(header, connection)
        if header.sys_flag & SUBSCRIPTION:
            filter = self._subscriptions.filter_in(header)
        else:
            filter = self._subscriptions.filter_of(header, group)
        offsets = self._offsets
        key = offset_key(header.topic, header.consumer_group)
        moved = offsets.take_pending(key, header.queue_id) if offsets.has_pending else None
        if moved is not None and moved != header.queue_offset:
            return self._send_elsewhere(request, header, moved)
        offsets.reading(key, header.queue_id, connection.peer)
        most = max(header.max_msg_nums, 1)  # as in Apache's broker the first message is never too much
        result = self._store.get(topic.topic_name, header.queue_id, header.queue_offset, most, filter)
        response = self._answer(connection, request, header, group, result, filter, may_wait)
        if may_wait and header.sys_flag & COMMIT and not self._is_slave:
            offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return response

    def _check(self, header: Pulling, connection: Connection) -> tuple[SubscriptionGroupConfig, TopicConfig]:
        """Broker, group, topic and queue must all allow it."""
        if not self._may_read:
            raise _forbidden(f"the broker[{self._broker.options.broker_ip1}] pulling message is forbidden")
        group = self._groups.find(header.consumer_group, auto_create=self._auto_create)
        if group is None:
            remark = f"subscription group [{header.consumer_group}] does not exist, {FAQ}"
            raise ResponseError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            raise _forbidden(f"subscription group no permission, {header.consumer_group}")
        topic = self._topics.get(header.topic)
        if topic is None:
            remark = f"topic[{header.topic}] not exist, apply first please! {FAQ}"
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, remark)
        if not topic.perm & READ:
            raise _forbidden(f"the topic[{header.topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            remark = (
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{connection.peer}]"
            )
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return group, topic

    def _answer(
        self,
        connection: Connection,
        request: Command,
        header: Pulling,
        group: SubscriptionGroupConfig,
        result: GetResult,
        filter: MessageFilter | None,
        may_wait: bool,
    ) -> Command | None:
        status = result.status
        if status is _FOUND:
            self._answer_found(connection, request, header, self._suggestion(group, result), result)
            return None
        code = _CODES.get(status)
        if code is None:  # the queue is empty or not there yet
            code = ResponseCode.PULL_OFFSET_MOVED if header.queue_offset else ResponseCode.PULL_NOT_FOUND
        if code == ResponseCode.PULL_NOT_FOUND and may_wait and header.sys_flag & SUSPEND:
            self._park(connection, request, header, filter)
            return None
        if code == ResponseCode.PULL_OFFSET_MOVED:
            code = self._offset_moved(header, result)
        suggested = self._suggestion(group, result)
        fields = pull_fields(suggested, result.next_offset, result.min_offset, result.max_offset)
        return request.reply(code, fields, remark=status.value)

    def _answer_found(
        self, connection: Connection, request: Command, header: Pulling, suggested: int, result: GetResult
    ) -> None:
        """Messages go out from where they lie in the log."""
        self._count(header, result)
        offset, low, high, length = result.next_offset, result.min_offset, result.max_offset, result.bytes
        if request.serialization == JSON:
            head = found_head(request.opaque, suggested, offset, low, high, length)
            connection.send_encoded_parts(head, result.slices, length)
        else:
            response = request.reply(0, pull_fields(suggested, offset, low, high), remark=_FOUND.value)
            connection.send_parts(response, result.slices, length)

    def _count(self, header: Pulling, result: GetResult) -> None:
        stats, group, topic, queue_id = self._stats, header.consumer_group, header.topic, header.queue_id
        stats.got(group, topic, queue_id, result.count, result.bytes, 0)
        if self._disk_fall:
            stats.fell_behind(group, topic, queue_id, size=result.behind)
            if result.suggest_slave:  # it lies further back than memory reaches
                stats.got_from_disk(group, topic, result.count, result.bytes)

    def _park(self, connection: Connection, request: Command, header: Pulling, filter: MessageFilter | None) -> None:
        options = self._broker.options
        long = options.long_polling_enable
        patience = header.suspend_timeout_millis if long else options.short_polling_time_mills
        deadline = self._broker.env.clock.monotonic() + patience / 1000
        self._broker.longpoll.park(
            Parked(connection, request, header.topic, header.queue_id, header.queue_offset, filter, deadline)
        )

    def _suggestion(self, group: SubscriptionGroupConfig, result: GetResult) -> int:
        """Which broker to pull from next; always the master unless slaves may be read."""
        if not self._slave_read:
            return _MASTER
        return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id

    def _offset_moved(self, header: Pulling, result: GetResult) -> ResponseCode:
        """A master corrects the reader and notes it for operators; a slave that may lag sends it back to try again."""
        options = self._broker.options
        if options.broker_role == "SLAVE" and not options.offset_check_in_slave:
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        self._broker.put(offset_moved_event(self._broker, header, result.next_offset))
        return ResponseCode.PULL_OFFSET_MOVED

    def _send_elsewhere(self, request: Command, header: Pulling, offset: int) -> Command:
        """The group was reset while it was reading: its next pull begins where it was told to."""
        low = self._store.min_offset(header.topic, header.queue_id)
        high = self._store.max_offset(header.topic, header.queue_id)
        fields = pull_fields(_MASTER, offset, low, high)
        return request.reply(ResponseCode.PULL_OFFSET_MOVED, fields, remark="OFFSET_RESET")


def _pulling(request: Command) -> Pulling:
    return request.pulling or pulling_of(request.parsed(PullMessageRequest))


def _forbidden(remark: str) -> ResponseError:
    return ResponseError(ResponseCode.NO_PERMISSION, remark)


def handlers(broker: Broker) -> dict[int, Handler]:
    return {RequestCode.PULL_MESSAGE: PullHandler(broker).pull}
