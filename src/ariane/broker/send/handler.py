"""SEND_MESSAGE in its three forms: checks, then the store, then the answer when the message is kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ariane.broker.send.acknowledge import Done
from ariane.broker.send.answer import SendAnswer
from ariane.broker.send.properties import (
    StoredForms,
    delay_level,
    is_prepared,
    stored_properties,
    waits_for_store,
    without_delay,
)
from ariane.broker.send.put_status import failure, is_kept, response_code
from ariane.broker.send.target import FAQ, SendTarget, SendTargets
from ariane.errors import ProtocolError, ResponseError
from ariane.message import dead_letter_topic
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import JSON, ONEWAY, Command
from ariane.protocol.fast.sending import HAS_DELAY, HAS_TRANSACTION, Sending, sending_in
from ariane.protocol.ids import offset_ids
from ariane.protocol.units import TRANSACTION_ROLLBACK, Unit
from ariane.remoting import Connection, Handler
from ariane.store import ConsumeQueue, Marks, PutResult, PutStatus

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_OK: Final = PutStatus.OK
_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_TRANSACTION: Final = TRANSACTION_ROLLBACK  # both bits
_SPECIAL: Final = HAS_DELAY | HAS_TRANSACTION  # such messages are stored elsewhere first
_VERSION_3_4_9: Final = 121  # clients before it do not say how often a message may be retried


class SendHandler:
    """Takes messages in. What it appends is dispatched when all requests of the read are handled."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store
        self._acknowledge = broker.acknowledge
        self._promises = broker.acknowledge.waits
        self._flow = broker.flow
        self._topics_file = broker.persistence.topics
        self._targets = SendTargets(broker)
        self._stats = broker.stats
        self._random = broker.env.random
        self._store_host = b""
        self._digits = b""
        self._take_options()
        broker.on_options.append(lambda _: self._take_options())

    def _take_options(self) -> None:
        options = self._broker.options
        self._cluster = options.broker_cluster_name.encode()
        self._forms = StoredForms(self._cluster)
        self._answers = SendAnswer(options.region_id, options.trace_on)
        self._opens_at = options.start_accept_send_request_time_stamp_ms

    def send(self, connection: Connection, request: Command) -> Command | None:
        """SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE."""
        sending = sending_in(request)
        began = 0.0 if request.flag & ONEWAY else self._flow.check(connection.last_read)
        if self._opens_at:
            self._check_open()
        if not self._store_host:
            self._take_host()
        kind = sending.kind
        target = self._targets.get(kind.topic) or self._targets.check(kind)
        queue_id = sending.queue_id
        if queue_id < 0:
            queue_id = self._any_queue(target)
        elif queue_id >= target.queue_limit:
            raise _illegal_queue(sending, target, connection)
        if kind.batch or request.code == _BATCH:
            return self._send_batch(connection, request, sending, target, queue_id, began)
        if sending.names & _SPECIAL or target.retry_group:
            result = self._append(connection, request, sending, target, queue_id)
        else:
            queue = target.queue(queue_id)
            result = self._put(connection, request.body, sending, target, queue)
            if result.status is _OK:
                queue.puts.add(1, result.size)
        if result.status is not _OK:
            raise failure(self._broker, result.status)
        if began and not self._promises:
            self._flow.put()
        return self._answer(connection, request, result, queue_id, sending, began, target)

    def _put(
        self, connection: Connection, body: bytes, sending: Sending, target: SendTarget, queue: ConsumeQueue
    ) -> PutResult:
        """Store an ordinary message."""
        form = self._forms.get(sending)
        if form is not None:
            properties = form.before + sending.key + form.behind
            marks = form.marks
        else:
            properties = stored_properties(sending.properties, sending.names, self._cluster)
            marks = Marks(properties)
        kind = sending.kind
        return self._store.put(
            queue, body, properties, marks, kind.flag, kind.sys_flag | target.sys_flag, sending.born_timestamp,
            connection.peer_host, self._store_host, kind.reconsume_times,
        )  # fmt: skip

    def _append(
        self, connection: Connection, request: Command, sending: Sending, target: SendTarget, queue_id: int
    ) -> PutResult:
        """Store a message that may go elsewhere first: delayed, the half of a transaction, or a retry."""
        kind = sending.kind
        unit = Unit(
            target.name,
            request.body,
            stored_properties(sending.properties, sending.names, self._cluster),
            queue_id=queue_id,
            flag=kind.flag,
            sys_flag=kind.sys_flag | target.sys_flag,
            born_time=sending.born_timestamp,
            born_host=connection.peer_host,
            store_host=self._store_host,
            reconsume_times=kind.reconsume_times,
        )
        if target.retry_group:
            self._limit_retries(unit, target.retry_group, request, sending)
        if sending.names & _SPECIAL:
            self._check_transaction(sending.properties)
            self._broker.before_store(unit)
        result = self._store.append(unit, dispatch=False)
        if result.status is _OK:  # counted where it is stored now; the half and schedule topics deliver it later
            self._stats.put(unit.topic.decode(), unit.queue_id, 1, result.size)
        return result

    def _send_batch(
        self,
        connection: Connection,
        request: Command,
        sending: Sending,
        target: SendTarget,
        queue_id: int,
        began: float,
    ) -> Command | None:
        kind, names = sending.kind, sending.names
        if kind.sys_flag & _TRANSACTION or (names & HAS_DELAY and delay_level(sending.properties) > 0):
            raise failure(self._broker, PutStatus.MESSAGE_ILLEGAL)  # a batch can be neither delayed nor undecided
        unit = Unit(
            target.name,
            request.body,
            stored_properties(sending.properties, names, self._cluster),
            queue_id=queue_id,
            sys_flag=kind.sys_flag | target.sys_flag,
            born_time=sending.born_timestamp,
            born_host=connection.peer_host,
            store_host=self._store_host,
            reconsume_times=kind.reconsume_times,
            crc=0,  # each message has its own
        )
        try:
            result = self._store.append_batch(unit, dispatch=False)
        except ProtocolError as error:
            raise ResponseError(ResponseCode.MESSAGE_ILLEGAL, f"the batch is illegal: {error}") from None
        if result.status is not _OK:
            raise failure(self._broker, result.status)
        target.queue(queue_id).puts.add(result.count, result.size)
        return self._answer(connection, request, result, queue_id, sending, began, target)

    def _answer(
        self,
        connection: Connection,
        request: Command,
        result: PutResult,
        queue_id: int,
        sending: Sending,
        began: float,
        target: SendTarget,
    ) -> Command | None:
        """The answer now or, when flush or replicas were promised, later."""
        if request.flag & ONEWAY:
            return None
        waits = bool(self._promises) and waits_for_store(sending.properties, sending.names)
        if waits or target.is_new or target.retry_group:  # a dead-letter topic may be new too
            response = request.reply(0, self._answers.fields(self._ids(result), queue_id, result.queue_offset))
            self._answer_later(result, waits, self._when_kept(connection, request, response, began))
            return None
        if request.serialization != JSON:
            return request.reply(0, self._answers.fields(self._ids(result), queue_id, result.queue_offset))
        places, offset = result.places, result.queue_offset
        if places is None:
            place = result.physical_offset
            frame = self._answers.encoded_one(request.opaque, self._digits, place, queue_id, offset)
        else:
            frame = self._answers.encoded(request.opaque, self._digits, places, queue_id, offset)
        connection.answer_encoded(request, frame)
        return None

    def _ids(self, result: PutResult) -> str:
        """The offset ids of what was stored, with commas between them."""
        return offset_ids(self._store_host, result.places or [result.physical_offset])

    def _take_host(self) -> None:
        self._store_host = self._broker.store_host
        self._digits = self._store_host.hex().upper().encode()

    def _answer_later(self, result: PutResult, waits: bool, kept: Done) -> None:
        """A topic made by this send must be on the disk too, or a crash leaves messages that nobody can pull."""

        def topic_kept(saved: bool) -> None:
            if not saved:
                kept(PutStatus.FLUSH_DISK_TIMEOUT)
            elif waits:
                self._acknowledge.when_kept(result, kept)
            else:
                kept(result.status)

        self._topics_file.when_saved(topic_kept)

    def _when_kept(self, connection: Connection, request: Command, response: Command, began: float) -> Done:
        self._flow.waiting += 1

        def kept(status: PutStatus) -> None:
            self._flow.waiting -= 1
            if self._acknowledge.waits:
                self._flow.kept(self._broker.env.clock.monotonic() - began)
            response.code = response_code(status)
            if not is_kept(status):
                response.remark = failure(self._broker, status).remark
            connection.answer(request, response)

        return kept

    def _any_queue(self, target: SendTarget) -> int:
        if target.write_queues <= 0:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"the topic[{target.config.topic_name}] has no write queue")
        return self._random.randrange(target.write_queues)

    def _limit_retries(self, unit: Unit, group: str, request: Command, sending: Sending) -> None:
        """A message that a client sends to its retry topic itself ends with the dead letters after too many retries."""
        options = self._broker.options
        config = self._broker.groups.find(group, auto_create=options.auto_create_subscription_group)
        if config is None:
            raise ResponseError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group} {FAQ}"
            )
        most = config.retry_max_times
        if request.version >= _VERSION_3_4_9 and sending.kind.max_reconsume_times is not None:
            most = sending.kind.max_reconsume_times
        if unit.reconsume_times >= most:
            topic = dead_letter_topic(group)
            self._broker.topics.ensure(topic, 1, options.dlq_topic_perm)
            unit.topic = topic.encode()
            unit.queue_id = 0
            unit.properties = without_delay(unit.properties)

    def _check_transaction(self, properties: bytes) -> None:
        options = self._broker.options
        if options.reject_transaction_message and is_prepared(properties):
            remark = f"the broker[{options.broker_ip1}] sending transaction message is forbidden"
            raise ResponseError(ResponseCode.NO_PERMISSION, remark)

    def _check_open(self) -> None:
        if self._broker.env.clock.now_ms() < self._opens_at:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._opens_at / 1000))
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {at},{self._opens_at % 1000:03d}"
            )


def _illegal_queue(sending: Sending, target: SendTarget, connection: Connection) -> ResponseError:
    c = target.config
    text = (
        f"TopicConfig [topicName={c.topic_name}, readQueueNums={c.read_queue_nums}, "
        f"writeQueueNums={c.write_queue_nums}, perm={permission_text(c.perm)}, topicFilterType={c.topic_filter_type}, "
        f"topicSysFlag={c.topic_sys_flag}, order={'true' if c.order else 'false'}]"
    )
    remark = f"request queueId[{sending.queue_id}] is illegal, {text} Producer: {connection.peer}"
    return ResponseError(ResponseCode.SYSTEM_ERROR, remark)


def permission_text(perm: int) -> str:
    """`RW-` and the like, as RocketMQ writes a permission."""
    return ("R" if perm & 4 else "-") + ("W" if perm & 2 else "-") + ("X" if perm & 1 else "-")


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = SendHandler(broker)
    return {
        RequestCode.SEND_MESSAGE: handler.send,
        RequestCode.SEND_MESSAGE_V2: handler.send,
        RequestCode.SEND_BATCH_MESSAGE: handler.send,
    }
