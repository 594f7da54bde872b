"""CONSUMER_SEND_MSG_BACK: store a message that failed for a later retry, or as a dead letter."""

from random import Random

from ariane.broker.config.live import LiveOptions
from ariane.broker.delay.delivery import Delay
from ariane.broker.message_writer import MessageWriter
from ariane.broker.refusals import broker_is_read_only, no_such_group, topic_is_read_only
from ariane.broker.retry.retries import DEAD_LETTER_QUEUES, allowed_times, decide, sent_back
from ariane.broker.send.acknowledge import Acknowledge, Done
from ariane.broker.stats import BrokerStats
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.persistence import KeptTable
from ariane.broker.tables.topics import TopicTable
from ariane.broker.unit_copy import properties_of, topic_of
from ariane.errors import ResponseError
from ariane.message import RETRY_TOPIC, SCHEDULE_TOPIC, retry_topic
from ariane.protocol.bodies.topics import UNIT_SUB, WRITE
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import ConsumerSendMsgBackRequest
from ariane.remoting import Connection
from ariane.store import STORED, MessageStore, PutResult, PutStatus


class SendBackHandler:
    """Takes messages back from consumers."""

    def __init__(
        self,
        topics: TopicTable,
        topics_file: KeptTable,
        groups: GroupTable,
        store: MessageStore,
        delay: Delay,
        writer: MessageWriter,
        acknowledge: Acknowledge,
        stats: BrokerStats,
        options: LiveOptions,
        random: Random,
    ) -> None:
        self._topics = topics
        self._topics_file = topics_file
        self._groups = groups
        self._store = store
        self._delay = delay
        self._writer = writer
        self._acknowledge = acknowledge
        self._stats = stats
        self._options = options
        self._random = random

    def take_back(self, connection: Connection, request: Command) -> Command | None:
        """Store a copy of the message in the retry topic or the dead-letter topic of the group."""
        header = ConsumerSendMsgBackRequest.parse(request.fields)
        options = self._options.current
        auto_create = options.auto_create_subscription_group
        group = self._groups.find(header.group, auto_create=auto_create, by=connection)
        if group is None:
            raise no_such_group(header.group)
        if not options.broker_permission & WRITE:
            raise broker_is_read_only(options.broker_ip1)
        if group.retry_queue_nums <= 0:
            return request.reply()
        sys_flag = UNIT_SUB if header.unit_mode else 0
        retry = self._topics.ensure(retry_topic(header.group), group.retry_queue_nums, sys_flag=sys_flag)
        if not retry.perm & WRITE:
            raise topic_is_read_only(retry.topic_name)
        unit = self._store.message_at(header.offset)
        if unit is None:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")

        limit = allowed_times(group.retry_max_times, request.version, header.max_reconsume_times)
        where = decide(header.group, unit.reconsume_times, header.delay_level, limit)
        if where.dead:
            self._topics.ensure(where.topic, DEAD_LETTER_QUEUES, options.dlq_topic_perm)
        queues = DEAD_LETTER_QUEUES if where.dead else retry.write_queue_nums
        copy = sent_back(unit, where, self._random.randrange(max(1, queues)))
        self._delay.rewrite(copy)
        result = self._writer.append(copy)
        if result.status is not PutStatus.OK:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, result.status.value)
        if copy.topic == SCHEDULE_TOPIC.encode():
            self._stats.put(SCHEDULE_TOPIC, copy.queue_id, 1, result.size)
        self._stats.sent_back(header.group, properties_of(copy).get(RETRY_TOPIC, topic_of(unit)))

        def kept(status: PutStatus) -> None:
            """Acknowledge only when the copy is as durable as the message was."""
            ok = status in STORED
            code = ResponseCode.SUCCESS if ok else ResponseCode.SYSTEM_ERROR
            connection.answer(request, request.reply(code, remark=None if ok else status.value))

        def topic_kept(_: PutResult, done: Done) -> None:
            """A topic that this request created must be on the disk too, or the copy is unreadable after a crash."""
            self._topics_file.when_saved(lambda saved: done(PutStatus.OK if saved else PutStatus.UNKNOWN_ERROR))

        self._acknowledge.when_kept_and(topic_kept, result, kept)
        return None
