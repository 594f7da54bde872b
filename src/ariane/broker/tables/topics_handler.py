"""Topics: create or change one, list all, statistics of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.names import check_not_system, check_topic
from ariane.errors import ResponseError
from ariane.message import MessageQueue
from ariane.protocol.bodies import TopicConfig, TopicOffset, TopicStatsTable
from ariane.protocol.bodies.topics import INHERIT, READ, WRITE
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import CreateTopicRequest, GetTopicStatsInfoRequest
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_MOST_QUEUES = 1 << 16
_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class TopicsHandler:
    """Topics as operators see them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def create(self, connection: Connection, request: Command) -> Command:
        """Create or change; answered when the name servers know, since the next question is often for the route."""
        if self._broker.options.broker_role == "SLAVE":
            remark = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        header = CreateTopicRequest.parse(request.fields)
        check_topic(header.topic)
        check_not_system(header.topic, frozenset(self._broker.topics.system))
        self._broker.topics.update(_config(header))
        await self._broker.persistence.topics.confirm()
        await self._broker.registration.current()
        return request.reply()

    def all(self, _: Connection, request: Command) -> Command:
        return request.reply(body=self._broker.topics.table().encode())

    def one(self, _: Connection, request: Command) -> Command:
        return request.reply(body=self._known(request).encode())

    def stats(self, _: Connection, request: Command) -> Command:
        """Where each queue begins and ends, and when it was last written to."""
        config = self._known(request)
        topic, name = config.topic_name, self._broker.options.broker_name
        queues = range(config.write_queue_nums)
        table = TopicStatsTable({MessageQueue(topic, name, q): self._queue_stats(topic, q) for q in queues})
        return request.reply(body=table.encode())

    def _known(self, request: Command) -> TopicConfig:
        topic = GetTopicStatsInfoRequest.parse(request.fields).topic
        config = self._broker.topics.get(topic)
        if config is None:
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return config

    def _queue_stats(self, topic: str, queue_id: int) -> TopicOffset:
        store = self._broker.store
        low, high = max(store.min_offset(topic, queue_id), 0), max(store.max_offset(topic, queue_id), 0)
        time = store.store_time(topic, queue_id, high - 1) if high else 0
        return TopicOffset(low, high, time)


def _config(header: CreateTopicRequest) -> TopicConfig:
    for queues in (header.read_queue_nums, header.write_queue_nums):
        if not 0 <= queues <= _MOST_QUEUES:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"a topic cannot have {queues} queues")
    if not 0 <= header.perm <= READ | WRITE | INHERIT:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{header.perm} is not a permission")
    if header.topic_filter_type not in _FILTER_TYPES:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{header.topic_filter_type} is not a topic filter type")
    return TopicConfig(
        header.topic,
        header.read_queue_nums,
        header.write_queue_nums,
        header.perm,
        header.topic_filter_type,
        header.topic_sys_flag or 0,
        header.order,
    )


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = TopicsHandler(broker)
    return {
        RequestCode.UPDATE_AND_CREATE_TOPIC: handler.create,
        RequestCode.GET_ALL_TOPIC_CONFIG: handler.all,
        RequestCode.GET_TOPIC_CONFIG: handler.one,
        RequestCode.GET_TOPIC_STATS_INFO: handler.stats,
    }
