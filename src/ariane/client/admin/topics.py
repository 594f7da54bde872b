"""Topics: create, change, describe, delete."""

from contextlib import suppress
from dataclasses import dataclass

from ariane.client.admin.name_servers import NameServerAdmin
from ariane.client.consumer.allocate import averagely
from ariane.errors import ClientError, RouteMissing
from ariane.message import AUTO_CREATE_TOPIC, MessageQueue
from ariane.protocol.bodies import (
    READ,
    WRITE,
    BrokerStatsData,
    GroupList,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicStatsTable,
)
from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import (
    CreateTopicRequest,
    DeleteTopicFromNamesrvRequest,
    DeleteTopicRequest,
    GetTopicsByClusterRequest,
    GetTopicStatsInfoRequest,
    QueryTopicConsumeByWhoRequest,
    ViewBrokerStatsDataRequest,
)

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""The namespace of the name server's KV configuration that fixes the queues of ordered topics."""


@dataclass(frozen=True)
class GrownTopic:
    """The number of queues of a topic on one broker, before and after `grow_topic`."""

    address: str
    before: int
    after: int


class TopicAdmin(NameServerAdmin):
    """Administers topics."""

    async def topics(self, cluster: str | None = None) -> list[str]:
        """The names of all topics, or of those with a queue in one cluster."""
        names = self._running().routes.names
        if cluster is None:
            response = await names.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            response = await names.ask(RequestCode.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequest(cluster))
        return sorted(TopicList.decode(response.body).topic_list)

    async def system_topics(self, address: str) -> list[str]:
        """The topics that a broker keeps for itself."""
        response = await self._running().wire.ask(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return sorted(TopicList.decode(response.body).topic_list)

    async def topic_clusters(self, topic: str) -> list[str]:
        """The clusters that have a topic."""
        names = {broker.broker_name for broker in (await self.route(topic)).broker_datas}
        table = (await self.cluster_info()).cluster_addr_table
        return sorted(cluster for cluster, brokers in table.items() if names.intersection(brokers))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        return await self._running().calls.queues(topic)

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        write_queues: int | None = None,
        perm: int = READ | WRITE,
        order: bool = False,
        sys_flag: int = 0,
        address: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Create a topic, or change it: on all masters, on those of one cluster, or on one broker."""
        write = queues if write_queues is None else write_queues
        header = CreateTopicRequest(topic, AUTO_CREATE_TOPIC, queues, write, perm, "SINGLE_TAG", sys_flag, order)
        if address is None and cluster is not None:
            for one in await self.masters(cluster):
                await self._on_masters(one, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        else:
            await self._on_masters(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def grow_topic(self, topic: str, queues: int) -> list[GrownTopic]:
        """Add queues to a topic on each of its masters, keeping its other settings; never removes any."""
        grown: list[GrownTopic] = []
        for address in await self._masters_of(topic):
            config = (await self.topic_configs(address)).topic_config_table[topic]
            before = config.write_queue_nums
            if before < queues or config.read_queue_nums < queues:
                after = max(queues, config.read_queue_nums)
                await self._resize(topic, config, address, after, max(queues, before))
            grown.append(GrownTopic(address, before, max(queues, before)))
        return grown

    async def close_queues(self, topic: str, keep: int) -> list[MessageQueue]:
        """Stop sends to all but the first `keep` queues of each master; returns those queues, which stay readable."""
        leaving: list[MessageQueue] = []
        for address in await self._masters_of(topic):
            config = (await self.topic_configs(address)).topic_config_table[topic]
            name = await self._name_of(address)
            leaving += [MessageQueue(topic, name, number) for number in range(keep, config.read_queue_nums)]
            if config.write_queue_nums > keep:
                await self._resize(topic, config, address, config.read_queue_nums, keep)
        return leaving

    async def drop_queues(self, topic: str, keep: int) -> None:
        """Remove all but the first `keep` queues of each master, which must be consumed and closed for sends."""
        for address in await self._masters_of(topic):
            config = (await self.topic_configs(address)).topic_config_table[topic]
            if config.write_queue_nums > keep:
                raise ClientError(f"{topic} at {address} is written to in {config.write_queue_nums} queues: close them")
            if config.read_queue_nums > keep:
                await self._resize(topic, config, address, keep, config.write_queue_nums)

    async def _resize(self, topic: str, config: TopicConfig, address: str, read: int, write: int) -> None:
        await self.create_topic(
            topic,
            queues=read,
            write_queues=write,
            perm=config.perm,
            order=config.order,
            sys_flag=config.topic_sys_flag,
            address=address,
        )

    async def _name_of(self, address: str) -> str:
        table = (await self.cluster_info()).broker_addr_table
        return next(name for name, broker in table.items() if address in broker.broker_addrs.values())

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic on all masters, or on those of one cluster, and at all name servers."""
        addresses = await self._masters_to_change(cluster)
        if cluster is None:
            with suppress(RouteMissing):  # what name servers do not know may still be on brokers
                await self._masters_of(topic)
        for address in addresses:
            await self._on_masters(address, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic))
        await self.delete_topic_at_name_servers(topic, cluster=cluster)

    async def delete_topic_at_name_servers(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete the routes of a topic alone."""
        header = DeleteTopicFromNamesrvRequest(topic, cluster)
        for address in await self.name_servers():
            await self._running().wire.ask(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    async def topic_configs(self, address: str) -> TopicConfigTable:
        """The topics of one broker, with their configuration."""
        response = await self._running().wire.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        return TopicConfigTable.decode(response.body)

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """First and last offset of each queue of a topic."""
        header = GetTopicStatsInfoRequest(topic)
        addresses = await self._readers_of(topic)
        found = await self._ask_each(addresses, RequestCode.GET_TOPIC_STATS_INFO, header, TopicStatsTable.decode)
        return TopicStatsTable({queue: offsets for stats in found for queue, offsets in stats.offset_table.items()})

    async def topic_groups(self, topic: str) -> list[str]:
        """The groups that consume a topic, or have an offset in it."""
        header = QueryTopicConsumeByWhoRequest(topic)
        addresses = await self._readers_of(topic)
        found = await self._ask_each(addresses, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header, GroupList.decode)
        return sorted({group for groups in found for group in groups.group_list})

    async def counter(self, address: str, name: str, key: str) -> BrokerStatsData:
        """A counter of a broker over the last minute, hour and day: `TOPIC_PUT_NUMS` of a topic, `GROUP_GET_NUMS`
        of `topic@group`."""
        header = ViewBrokerStatsDataRequest(name, key)
        response = await self._running().wire.ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
        return BrokerStatsData.decode(response.body)

    async def set_order(self, topic: str, queues: str) -> None:
        """Fix the queues of an ordered topic, as `broker-a:4;broker-b:4`: they stay when a broker leaves."""
        await self.put_kv(ORDER_NAMESPACE, topic, queues)

    async def add_order(self, topic: str, queues: str) -> None:
        """Fix the queues of an ordered topic on one broker, as `broker-a:4`, and keep those of the others."""
        known = await self.kv(ORDER_NAMESPACE, topic) or ""
        parts = {part.partition(":")[0]: part for part in (*known.split(";"), queues) if part}
        await self.set_order(topic, ";".join(parts.values()))

    async def allocation(self, topic: str, clients: list[str]) -> dict[str, list[MessageQueue]]:
        """How the default strategy would divide a topic's queues among clients, given in their order."""
        if not clients:
            raise ClientError("an allocation needs at least one client")
        queues = await self.queues(topic)
        return {client: averagely("", client, queues, clients) for client in clients}
