"""CONSUMER_SEND_MSG_BACK: a message that could not be consumed comes again later, or becomes a dead letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.refusals import broker_is_read_only, no_such_group, topic_is_read_only
from ariane.broker.retry.retries import DEAD_LETTER_QUEUES, SentBack, allowed_times, decide, sent_back
from ariane.broker.unit_copy import properties_of, topic_of
from ariane.errors import ResponseError
from ariane.message import RETRY_TOPIC, SCHEDULE_TOPIC, retry_topic
from ariane.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from ariane.protocol.bodies.topics import UNIT_SUB, WRITE
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import ConsumerSendMsgBackRequest
from ariane.protocol.units import Unit
from ariane.remoting import Connection, Handler
from ariane.store import STORED, PutStatus

if TYPE_CHECKING:
    from ariane.broker.server import Broker


class SendBackHandler:
    """Takes messages back from consumers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def take_back(self, connection: Connection, request: Command) -> Command | None:
        header = ConsumerSendMsgBackRequest.parse(request.fields)
        config = self._group(header.group)
        self._check_permission()
        if config.retry_queue_nums <= 0:
            return request.reply()
        topic = self._retry_topic(config, header.unit_mode)
        unit = self._message(header.offset)
        limit = allowed_times(config.retry_max_times, request.version, header.max_reconsume_times)
        where = decide(header.group, unit.reconsume_times, header.delay_level, limit)
        return self._store(connection, request, header.group, unit, where, topic)

    def _store(
        self, connection: Connection, request: Command, group: str, unit: Unit, where: SentBack, retry: TopicConfig
    ) -> Command | None:
        broker = self._broker
        if where.dead:
            broker.topics.ensure(where.topic, DEAD_LETTER_QUEUES, broker.options.dlq_topic_perm)
        queues = DEAD_LETTER_QUEUES if where.dead else retry.write_queue_nums
        copy = sent_back(unit, where, broker.env.random.randrange(max(1, queues)))
        broker.kinds.delay.rewrite(copy)
        result = broker.writer.append(copy)
        if result.status is not PutStatus.OK:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, result.status.value)
        if copy.topic == SCHEDULE_TOPIC.encode():
            broker.stats.put(SCHEDULE_TOPIC, copy.queue_id, 1, result.size)
        broker.stats.sent_back(group, properties_of(copy).get(RETRY_TOPIC, topic_of(unit)))

        def kept(status: PutStatus) -> None:
            """The consumer goes on only when the copy is as safe as the message was."""
            ok = status in STORED
            code = ResponseCode.SUCCESS if ok else ResponseCode.SYSTEM_ERROR
            connection.answer(request, request.reply(code, remark=None if ok else status.value))

        def topic_kept(saved: bool) -> None:
            """A topic that this request created must be on the disk too, or a crash hides the copy."""
            if saved:
                broker.acknowledge.when_kept(result, kept)
            else:
                kept(PutStatus.UNKNOWN_ERROR)

        broker.persistence.topics.when_saved(topic_kept)
        return None

    def _group(self, group: str) -> SubscriptionGroupConfig:
        auto_create = self._broker.options.auto_create_subscription_group
        config = self._broker.groups.find(group, auto_create=auto_create)
        if config is None:
            raise no_such_group(group)
        return config

    def _check_permission(self) -> None:
        options = self._broker.options
        if not options.broker_permission & WRITE:
            raise broker_is_read_only(options.broker_ip1)

    def _retry_topic(self, config: SubscriptionGroupConfig, unit_mode: bool) -> TopicConfig:
        name = retry_topic(config.group_name)
        sys_flag = UNIT_SUB if unit_mode else 0
        topic = self._broker.topics.ensure(name, config.retry_queue_nums, sys_flag=sys_flag)
        if not topic.perm & WRITE:
            raise topic_is_read_only(name)
        return topic

    def _message(self, offset: int) -> Unit:
        unit = self._broker.store.unit_at(offset)
        if unit is None or unit.physical_offset != offset:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
        return unit


def handlers(broker: Broker) -> dict[int, Handler]:
    return {RequestCode.CONSUMER_SEND_MSG_BACK: SendBackHandler(broker).take_back}
