"""Topics as operators manage them: delete one, list the system's own, list the groups that consume one."""

from __future__ import annotations

from collections.abc import Callable

from ariane.broker.config.live import LiveOptions
from ariane.broker.names import check_not_system, check_topic
from ariane.broker.refusals import not_on_a_slave
from ariane.broker.role import Role
from ariane.broker.stats import BrokerStats
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import KeptTable
from ariane.broker.tables.topics import TopicTable
from ariane.protocol.bodies import GroupList
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import DeleteTopicRequest, QueryTopicConsumeByWhoRequest
from ariane.remoting import Connection


class AdminTopicsHandler:
    """Deletes and lists topics."""

    def __init__(
        self,
        topics: TopicTable,
        topics_file: KeptTable,
        offsets: OffsetTable,
        clients: ClientTable,
        stats: BrokerStats,
        role: Role,
        options: LiveOptions,
        *,
        drop: Callable[[str], None],
    ) -> None:
        """`drop` deletes the queues of a topic and the offsets in it."""
        self._topics = topics
        self._topics_file = topics_file
        self._drop = drop
        self._offsets = offsets
        self._clients = clients
        self._stats = stats
        self._role = role
        self._options = options

    async def delete(self, _: Connection, request: Command) -> Command:
        """DELETE_TOPIC_IN_BROKER: remove a topic, its queues and the offsets in it."""
        if self._role.is_slave:
            raise not_on_a_slave()
        topic = check_topic(DeleteTopicRequest.parse(request.fields).topic)
        check_not_system(topic, frozenset(self._topics.system))
        self._topics.delete(topic)
        self._drop(topic)
        if self._options.current.auto_delete_unused_stats:
            self._stats.topic_deleted(topic)
        await self._topics_file.confirm()
        return request.reply()

    def system(self, _: Connection, request: Command) -> Command:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER: the topics of the broker itself."""
        return request.reply(body=dumps({"topicList": sorted(self._topics.system)}))

    def consumed_by(self, _: Connection, request: Command) -> Command:
        """QUERY_TOPIC_CONSUME_BY_WHO: groups that subscribe to a topic now, or that committed offsets in it."""
        topic = QueryTopicConsumeByWhoRequest.parse(request.fields).topic
        groups = self._clients.groups_of(topic) | self._offsets.groups_of(topic)
        return request.reply(body=GroupList(sorted(groups)).encode())
