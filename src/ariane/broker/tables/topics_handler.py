"""Requests for topics: create or change one, list all, statistics of one."""

from typing import Protocol

from ariane.broker.config.live import LiveOptions
from ariane.broker.names import check_not_system, check_topic
from ariane.broker.refusals import not_on_a_slave
from ariane.broker.role import Role
from ariane.broker.tables.persistence import KeptTable
from ariane.broker.tables.topics import TopicTable
from ariane.errors import ResponseError
from ariane.message import MessageQueue
from ariane.protocol.bodies import TopicConfig, TopicOffset, TopicStatsTable
from ariane.protocol.bodies.topics import INHERIT, READ, WRITE
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import CreateTopicRequest, GetTopicStatsInfoRequest
from ariane.remoting import Connection
from ariane.store import MessageStore

_MOST_QUEUES = 1 << 16
_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class Routes(Protocol):
    """The routes that name servers answer with."""

    async def current(self) -> None:
        """Return when every change so far is registered with the name servers."""
        ...


class TopicsHandler:
    """Answers requests that create and describe topics."""

    def __init__(
        self,
        topics: TopicTable,
        file: KeptTable,
        routes: Routes,
        store: MessageStore,
        role: Role,
        options: LiveOptions,
    ) -> None:
        self._topics = topics
        self._file = file
        self._routes = routes
        self._store = store
        self._role = role
        self._options = options

    async def create(self, _: Connection, request: Command) -> Command:
        """Create or change a topic; answer when the disk holds it and the name servers route it."""
        if self._role.is_slave:
            raise not_on_a_slave()
        header = CreateTopicRequest.parse(request.fields)
        check_topic(header.topic)
        check_not_system(header.topic, frozenset(self._topics.system))
        self._topics.update(_config(header))
        await self._file.confirm()
        await self._routes.current()
        return request.reply()

    def all(self, _: Connection, request: Command) -> Command:
        """All topics."""
        return request.reply(body=self._topics.table().encode())

    def one(self, _: Connection, request: Command) -> Command:
        """One topic."""
        return request.reply(body=self._known(request).encode())

    def stats(self, _: Connection, request: Command) -> Command:
        """The first and the next offset of each queue of a topic, and the time of its last message."""
        config, store = self._known(request), self._store
        topic, broker_name = config.topic_name, self._options.current.broker_name
        table: dict[MessageQueue, TopicOffset] = {}
        for queue_id in range(config.write_queue_nums):
            low, high = max(store.min_offset(topic, queue_id), 0), max(store.max_offset(topic, queue_id), 0)
            time = store.store_time(topic, queue_id, high - 1) if high else 0
            table[MessageQueue(topic, broker_name, queue_id)] = TopicOffset(low, high, time)
        return request.reply(body=TopicStatsTable(table).encode())

    def _known(self, request: Command) -> TopicConfig:
        topic = GetTopicStatsInfoRequest.parse(request.fields).topic
        config = self._topics.get(topic)
        if config is None:
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return config


def _config(header: CreateTopicRequest) -> TopicConfig:
    for queues in (header.read_queue_nums, header.write_queue_nums):
        if not 0 <= queues <= _MOST_QUEUES:
            remark = f"{queues} queues are out of range 0..{_MOST_QUEUES}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
    if not 0 <= header.perm <= READ | WRITE | INHERIT:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{header.perm} is not a permission: 2 write, 4 read, 6 both")
    if header.topic_filter_type not in _FILTER_TYPES:
        remark = f"{header.topic_filter_type} is not a topic filter type: {' or '.join(_FILTER_TYPES)}"
        raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
    return TopicConfig(
        header.topic,
        header.read_queue_nums,
        header.write_queue_nums,
        header.perm,
        header.topic_filter_type,
        header.topic_sys_flag or 0,
        header.order,
    )
