"""SEND_MESSAGE in its three forms: check, append, and answer when the message is stored as promised."""

from __future__ import annotations

import time
from random import Random
from typing import Final

from ariane.broker.config import BrokerOptions
from ariane.broker.config.live import LiveOptions
from ariane.broker.message_writer import MessageWriter
from ariane.broker.read_cycle import ReadCycle
from ariane.broker.refusals import no_such_group, permission_text
from ariane.broker.send.acknowledge import Acknowledge, Done
from ariane.broker.send.answer import PutFailures, SendAnswer, response_code
from ariane.broker.send.flow import FlowControl
from ariane.broker.send.properties import (
    StoredForms,
    is_prepared,
    stored_properties,
    waits_for_store,
    without_delay,
)
from ariane.broker.send.target import SendTarget, SendTargets
from ariane.broker.stats.counting import BrokerStats
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.persistence import KeptTable
from ariane.broker.tables.topics import TopicTable
from ariane.env import Clock
from ariane.errors import ProtocolError, ResponseError
from ariane.message import dead_letter_topic
from ariane.protocol.codes import V3_4_9, RequestCode, ResponseCode
from ariane.protocol.command import JSON, ONEWAY, Command
from ariane.protocol.fast.sending import HAS_DELAY, HAS_TIMER, HAS_TRANSACTION, Sending, sending_in
from ariane.protocol.ids import offset_ids
from ariane.protocol.properties import delay_level
from ariane.protocol.units import TRANSACTION_MASK, Unit
from ariane.remoting import Connection
from ariane.store import STORED, Marks, MessageStore, PutResult, PutStatus

_OK: Final = PutStatus.OK
_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_SPECIAL: Final = HAS_DELAY | HAS_TIMER | HAS_TRANSACTION  # stored in another topic first


class SendHandler:
    """Appends messages within a read cycle, which makes them visible when it ends."""

    def __init__(
        self,
        store: MessageStore,
        cycle: ReadCycle,
        flow: FlowControl,
        acknowledge: Acknowledge,
        targets: SendTargets,
        writer: MessageWriter,
        topics: TopicTable,
        topics_file: KeptTable,
        groups: GroupTable,
        stats: BrokerStats,
        failures: PutFailures,
        options: LiveOptions,
        clock: Clock,
        random: Random,
    ) -> None:
        self._store = store
        self._cycle = cycle
        self._flow = flow
        self._acknowledge = acknowledge
        self._promises = acknowledge.waits
        self._targets = targets
        self._writer = writer
        self._topics = topics
        self._topics_file = topics_file
        self._groups = groups
        self._stats = stats
        self._failures = failures
        self._options = options
        self._clock = clock
        self._random = random
        self._store_host = b""
        self._digits = b""  # the same in hexadecimal, the first half of every message id
        options.follow(self._take_options)

    def _take_options(self, options: BrokerOptions) -> None:
        self._cluster = options.broker_cluster_name.encode()
        self._forms = StoredForms(self._cluster)
        self._answers = SendAnswer(options.region_id, options.trace_on)
        self._opens_at = options.start_accept_send_request_time_stamp_ms

    def send(self, connection: Connection, request: Command) -> Command | None:
        """Store a message or a batch: SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE."""
        sending = sending_in(request)
        if not request.flag & ONEWAY:
            self._flow.check(connection.last_read)
        if self._opens_at:
            self._check_open()
        if self._acknowledge.copies is not None:
            self._check_copies()
        if not self._store_host:
            self._store_host = self._writer.host
            self._digits = self._store_host.hex().upper().encode()
        kind = sending.kind
        target = self._targets.get(kind.topic) or self._targets.check(kind, connection)
        queue_id = sending.queue_id
        if queue_id < 0:
            queue_id = self._any_queue(target)
        elif queue_id >= target.queue_limit:
            raise _illegal_queue(sending, target, connection)
        if kind.batch or request.code == _BATCH:
            result = self._append_batch(connection, request, sending, target, queue_id)
        elif sending.names & _SPECIAL or target.retry_group:
            result = self._append(connection, request, sending, target, queue_id)
        else:
            result = self._put(connection, request, sending, target, queue_id)
        if result.status is not _OK:
            raise self._failures.of(result.status)
        self._cycle.puts += 1
        if request.flag & ONEWAY:
            return None
        waits = bool(self._promises) and (
            self._acknowledge.always or waits_for_store(sending.properties, sending.names)
        )
        if waits or target.is_new or target.retry_group:  # a dead-letter topic may be new too
            self._answer_later(connection, request, result, queue_id, waits)
            return None
        if request.serialization != JSON:
            return request.reply(0, self._answers.fields(self._ids(result), queue_id, result.queue_offset))
        connection.answer_encoded(request, self._encoded(request, result, queue_id))
        return None

    def _encoded(self, request: Command, result: PutResult, queue_id: int) -> bytes:
        """The frame that answers a stored send, with a JSON header."""
        places, offset = result.places, result.queue_offset
        if places is None:
            place = result.physical_offset
            return self._answers.encoded_one(request.opaque, self._digits, place, queue_id, offset)
        return self._answers.encoded(request.opaque, self._digits, places, queue_id, offset)

    def _put(
        self, connection: Connection, request: Command, sending: Sending, target: SendTarget, queue_id: int
    ) -> PutResult:
        """Store an ordinary message."""
        form = self._forms.get(sending)
        if form is not None:
            properties = form.before + sending.key + form.after
            marks = form.marks
        else:
            properties = stored_properties(sending.properties, sending.names, self._cluster)
            marks = Marks(properties)
        queue = target.queue(queue_id)
        result = self._store.put(queue, self._unit(connection, request, sending, target, queue_id, properties), marks)
        if result.status is _OK:
            queue.puts.add(1, result.size)
        return result

    def _append(
        self, connection: Connection, request: Command, sending: Sending, target: SendTarget, queue_id: int
    ) -> PutResult:
        """Store a message that may be redirected: delayed, the half of a transaction, or a retry."""
        properties = stored_properties(sending.properties, sending.names, self._cluster)
        unit = self._unit(connection, request, sending, target, queue_id, properties)
        if target.retry_group:
            self._limit_retries(connection, unit, target.retry_group, request, sending)
        if sending.names & _SPECIAL:
            options = self._options.current
            if options.reject_transaction_message and is_prepared(sending.properties):
                remark = f"the broker[{options.broker_ip1}] sending transaction message is forbidden"
                raise ResponseError(ResponseCode.NO_PERMISSION, remark)
            self._writer.rewrite(unit)
        result = self._store.append(unit)
        if result.status is _OK:  # counted for the topic that stores it now; delivered from there later
            self._stats.put(unit.topic.decode(), unit.queue_id, 1, result.size)
            self._topics.was_used(target.config.topic_name)  # its own queues stay empty until the message is due
        return result

    def _append_batch(
        self, connection: Connection, request: Command, sending: Sending, target: SendTarget, queue_id: int
    ) -> PutResult:
        """Store the messages of a batch, which can be neither delayed nor the half of a transaction."""
        kind, names = sending.kind, sending.names
        delayed = names & HAS_TIMER or (names & HAS_DELAY and delay_level(sending.properties) > 0)
        if kind.sys_flag & TRANSACTION_MASK or delayed:
            raise self._failures.of(PutStatus.MESSAGE_ILLEGAL)
        properties = stored_properties(sending.properties, names, self._cluster)
        unit = self._unit(connection, request, sending, target, queue_id, properties, crc=0)  # each message has its own
        unit.flag = 0
        try:
            result = self._store.append_batch(unit)
        except ProtocolError as error:
            raise ResponseError(ResponseCode.MESSAGE_ILLEGAL, f"the batch is illegal: {error}") from None
        if result.status is _OK:
            target.queue(queue_id).puts.add(result.count, result.size)
        return result

    def _unit(
        self,
        connection: Connection,
        request: Command,
        sending: Sending,
        target: SendTarget,
        queue_id: int,
        properties: bytes,
        crc: int = -1,
    ) -> Unit:
        kind = sending.kind
        return Unit(
            target.name,
            request.body,
            properties,
            queue_id=queue_id,
            flag=kind.flag,
            sys_flag=kind.sys_flag | target.sys_flag,
            born_time=sending.born_timestamp,
            born_host=connection.peer_host,
            store_host=self._store_host,
            reconsume_times=kind.reconsume_times,
            crc=crc,
        )

    def _answer_later(
        self, connection: Connection, request: Command, result: PutResult, queue_id: int, waits: bool
    ) -> None:
        """Answer when a topic that this send created is on the disk, and the message is stored as promised."""
        began = self._cycle.now
        self._acknowledge.waiting += 1

        def kept(status: PutStatus) -> None:
            self._acknowledge.waiting -= 1
            if self._promises:
                self._cycle.record(self._clock.monotonic() - began)
            if status is _OK and request.serialization == JSON:
                connection.answer_encoded(request, self._encoded(request, result, queue_id))
                return
            response = request.reply(0, self._answers.fields(self._ids(result), queue_id, result.queue_offset))
            response.code = response_code(status)
            if status not in STORED:
                response.remark = self._failures.of(status).remark
            connection.answer(request, response)

        if waits and self._topics_file.is_saved:
            self._acknowledge.when_kept(result, kept)
        elif waits:
            self._acknowledge.when_kept_and(self._topic_saved, result, kept)
        else:
            self._topic_saved(result, kept)

    def _topic_saved(self, result: PutResult, done: Done) -> None:
        """Call `done` when every topic is on the disk."""

        def saved(ok: bool) -> None:
            done(result.status if ok else PutStatus.FLUSH_DISK_TIMEOUT)

        self._topics_file.when_saved(saved)

    def _ids(self, result: PutResult) -> str:
        """The offset ids of the stored messages, separated by commas."""
        return offset_ids(self._store_host, result.places or [result.physical_offset])

    def _any_queue(self, target: SendTarget) -> int:
        if target.write_queues <= 0:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"the topic[{target.config.topic_name}] has no write queue")
        return self._random.randrange(target.write_queues)

    def _limit_retries(
        self, connection: Connection, unit: Unit, group: str, request: Command, sending: Sending
    ) -> None:
        """Redirect a retry that its client sends itself to the dead-letter topic after too many attempts."""
        options = self._options.current
        config = self._groups.find(group, auto_create=options.auto_create_subscription_group, by=connection)
        if config is None:
            raise no_such_group(group)
        most = config.retry_max_times
        if request.version >= V3_4_9 and sending.kind.max_reconsume_times is not None:
            most = sending.kind.max_reconsume_times
        if unit.reconsume_times >= most:
            topic = dead_letter_topic(group)
            self._topics.ensure(topic, 1, options.dlq_topic_perm)
            unit.topic = topic.encode()
            unit.queue_id = 0
            unit.properties = without_delay(unit.properties)

    def _check_copies(self) -> None:
        """Refuse a send when fewer copies are in sync than minInSyncReplicas asks for."""
        copies = self._acknowledge.copies
        if copies is not None and not copies.enough:
            remark = "in-sync replicas not enough: start the slaves of this broker, or lower minInSyncReplicas"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)

    def _check_open(self) -> None:
        if self._clock.now_ms() < self._opens_at:
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
