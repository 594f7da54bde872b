"""Administration: topics, groups, offsets, messages, and the state of a cluster."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, Unpack

from ariane.client.connect.lifecycle import Lifecycle
from ariane.client.connect.routes import MASTER
from ariane.client.decoding import decode_message, decode_messages
from ariane.client.options import ClientKeywords, ClientOptions
from ariane.env import Env
from ariane.errors import BrokerRefused, ClientError, RouteMissing
from ariane.message import AUTO_CREATE_TOPIC, UNIQUE_KEY, UNIQUE_KEY_QUERY, MessageQueue, ReceivedMessage, retry_topic
from ariane.protocol.bodies import (
    READ,
    WRITE,
    ClusterInfo,
    ConsumerConnection,
    ConsumeStats,
    KVTable,
    ProducerConnection,
    ResetOffsetBody,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    TopicConfigTable,
    TopicList,
    TopicRouteData,
    TopicStatsTable,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import (
    CreateTopicRequest,
    DeleteSubscriptionGroupRequest,
    DeleteTopicFromNamesrvRequest,
    DeleteTopicRequest,
    GetConsumerConnectionListRequest,
    GetConsumeStatsRequest,
    GetProducerConnectionListRequest,
    GetTopicStatsInfoRequest,
    Header,
    QueryMessageRequest,
    ResetOffsetRequest,
    ViewMessageRequest,
)
from ariane.protocol.ids import host_text, parse_offset_id
from ariane.protocol.units import decode_unit

T = TypeVar("T")
FOREVER = (1 << 63) - 1


class Admin(Lifecycle):
    """Administers a cluster. `address=` selects one broker; the default is all masters of the cluster."""

    def __init__(
        self, *, options: ClientOptions | None = None, env: Env | None = None, **keywords: Unpack[ClientKeywords]
    ) -> None:
        super().__init__("admin", "admin", ClientOptions.of(options, keywords), env, ())

    async def cluster_info(self) -> ClusterInfo:
        """Brokers and clusters."""
        response = await self._running().routes.names.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        return ClusterInfo.decode(response.body)

    async def masters(self) -> list[str]:
        """The addresses of all masters."""
        table = (await self.cluster_info()).broker_addr_table
        return [broker.broker_addrs[MASTER] for broker in table.values() if MASTER in broker.broker_addrs]

    async def topics(self) -> list[str]:
        """The names of all topics."""
        response = await self._running().routes.names.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(TopicList.decode(response.body).topic_list)

    async def route(self, topic: str) -> TopicRouteData:
        """The brokers and queues of a topic; RouteMissing when there is none."""
        return (await self._running().routes.refresh(topic)).data

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
        address: str | None = None,
    ) -> None:
        """Create a topic, or change it."""
        header = CreateTopicRequest(
            topic,
            AUTO_CREATE_TOPIC,
            queues,
            queues if write_queues is None else write_queues,
            perm,
            "SINGLE_TAG",
            0,
            order,
        )
        await self._on_masters(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic on all masters and at all name servers."""
        await self._on_masters(None, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic))
        header = DeleteTopicFromNamesrvRequest(topic)
        wire, names = self._running().wire, self._running().routes.names
        for address in names.addresses:
            await wire.ask(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    async def topic_configs(self, address: str) -> TopicConfigTable:
        """The topics of one broker, with their configuration."""
        response = await self._running().wire.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        return TopicConfigTable.decode(response.body)

    async def create_group(self, config: SubscriptionGroupConfig | str, *, address: str | None = None) -> None:
        """Create a consumer group, or change it; a name alone gives a group with the default settings."""
        if isinstance(config, str):
            config = SubscriptionGroupConfig(config)
        await self._on_masters(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, config.encode())

    async def delete_group(self, group: str, *, remove_offsets: bool = False, address: str | None = None) -> None:
        """Delete a consumer group."""
        header = DeleteSubscriptionGroupRequest(group, remove_offsets)
        await self._on_masters(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def groups(self, address: str) -> SubscriptionGroupTable:
        """The consumer groups of one broker."""
        response = await self._running().wire.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return SubscriptionGroupTable.decode(response.body)

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """First and last offset of each queue of a topic."""
        header = GetTopicStatsInfoRequest(topic)
        found = await self._from_masters_of(topic, RequestCode.GET_TOPIC_STATS_INFO, header, TopicStatsTable.decode)
        return TopicStatsTable({queue: offsets for stats in found for queue, offsets in stats.offset_table.items()})

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """The offsets of a group by queue."""
        header = GetConsumeStatsRequest(group, topic)
        where = topic or retry_topic(group)
        found = await self._from_masters_of(where, RequestCode.GET_CONSUME_STATS, header, ConsumeStats.decode)
        table = {queue: offsets for stats in found for queue, offsets in stats.offset_table.items()}
        return ConsumeStats(table, sum(stats.consume_tps for stats in found))

    async def lag(self, group: str, topic: str | None = None) -> int:
        """The number of messages that a group has not consumed yet."""
        table = (await self.consume_stats(group, topic)).offset_table
        return sum(offsets.broker_offset - offsets.consumer_offset for offsets in table.values())

    async def consumer_connections(self, group: str) -> ConsumerConnection:
        """The consumers of a group that are online; BrokerRefused with code CONSUMER_NOT_ONLINE when there are none."""
        code, header = RequestCode.GET_CONSUMER_CONNECTION_LIST, GetConsumerConnectionListRequest(group)
        masters = await self._masters_of(retry_topic(group))
        return await self._first_answer(masters, code, header, ConsumerConnection.decode)

    async def producer_connections(self, group: str, topic: str) -> ProducerConnection:
        """The producers of a group that are online."""
        header = GetProducerConnectionListRequest(group)
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST
        return await self._first_answer(await self._masters_of(topic), code, header, ProducerConnection.decode)

    async def reset_offset(
        self, group: str, topic: str, timestamp: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Move a group whose consumers are online to a time in milliseconds (-1: the end); returns the new offsets."""
        header = ResetOffsetRequest(topic, group, timestamp, force)
        found = await self._from_masters_of(
            topic, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, ResetOffsetBody.decode
        )
        return {queue: offset for body in found for queue, offset in body.offset_table.items()}

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the broker still has."""
        return await self._running().calls.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return await self._running().calls.max_offset(queue)

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message stored at or after a time in milliseconds."""
        return await self._running().calls.search_offset(queue, timestamp)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """The store time of the oldest message, in milliseconds."""
        return await self._running().calls.earliest_store_time(queue)

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group committed; None when it never did."""
        return await self._running().calls.committed(group, queue)

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit an offset for a group."""
        await self._running().calls.commit(group, queue, offset)

    async def view_message(self, offset_id: str) -> ReceivedMessage:
        """A message by its offset id, which the broker gave it."""
        host, offset = parse_offset_id(offset_id)
        response = await self._running().wire.ask(
            host_text(host), RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset)
        )
        return decode_message(decode_unit(response.body), "")

    async def query_messages(
        self, topic: str, key: str, *, count: int = 64, begin: int = 0, end: int = FOREVER
    ) -> list[ReceivedMessage]:
        """Messages with a key, stored between two times in milliseconds."""
        found = await self._query(topic, key, count, begin, end, unique=False)
        return [message for message in found if key in message.keys]

    async def find_message(self, topic: str, message_id: str) -> ReceivedMessage | None:
        """A message by its id, which the producer gave it; None when it is in no index."""
        found = await self._query(topic, message_id, 32, 0, FOREVER, unique=True)
        exact = [message for message in found if message.properties.get(UNIQUE_KEY) == message_id]
        return min(exact, key=lambda message: message.store_time, default=None)

    async def _query(
        self, topic: str, key: str, count: int, begin: int, end: int, *, unique: bool
    ) -> list[ReceivedMessage]:
        header = QueryMessageRequest(topic, key, count, begin, end)
        fields = header.fields() | ({UNIQUE_KEY_QUERY: "true"} if unique else {})
        expect = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        wire = self._running().wire
        answers = await asyncio.gather(
            *(
                wire.ask(address, RequestCode.QUERY_MESSAGE, fields, timeout=6.0, expect=expect)
                for address in await self._masters_of(topic)
            )
        )
        return [message for answer in answers if answer.body for message in decode_messages(answer.body, "")]

    async def broker_config(self, address: str) -> str:
        """The configuration of a broker, as lines of a properties file."""
        return (await self._running().wire.ask(address, RequestCode.GET_BROKER_CONFIG)).body.decode()

    async def broker_stats(self, address: str) -> dict[str, str]:
        """The runtime statistics of a broker."""
        response = await self._running().wire.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return KVTable.decode(response.body).table

    async def _on_masters(
        self, address: str | None, code: RequestCode, header: Header | None, body: bytes = b""
    ) -> None:
        addresses = [address] if address is not None else await self.masters()
        if not addresses:
            raise ClientError(
                "no master is registered with the name server, so nothing was changed: is a broker running?"
            )
        for one in addresses:
            await self._running().wire.ask(one, code, header, body)

    async def _masters_of(self, topic: str) -> list[str]:
        data = await self.route(topic)
        return [broker.broker_addrs[MASTER] for broker in data.broker_datas if MASTER in broker.broker_addrs]

    async def _from_masters_of(
        self, topic: str, code: RequestCode, header: Header, decode: Callable[[bytes], T]
    ) -> list[T]:
        wire = self._running().wire
        addresses = await self._masters_of(topic)
        answers = await asyncio.gather(*(wire.ask(address, code, header, timeout=5.0) for address in addresses))
        return [decode(answer.body) for answer in answers]

    async def _first_answer(
        self, addresses: list[str], code: RequestCode, header: Header, decode: Callable[[bytes], T]
    ) -> T:
        refused: BrokerRefused | None = None
        for address in addresses:
            try:
                return decode((await self._running().wire.ask(address, code, header)).body)
            except BrokerRefused as error:
                refused = error
        raise refused or RouteMissing("no master is registered that could answer: is a broker running?")
