"""Consumer groups: create, describe, delete; their clients, and the producers."""

import asyncio

from ariane.client.admin.requests import AdminRequests
from ariane.errors import ArianeError
from ariane.message import retry_topic
from ariane.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import (
    ConsumeMessageDirectlyRequest,
    DeleteSubscriptionGroupRequest,
    GetConsumerConnectionListRequest,
    GetConsumerRunningInfoRequest,
    GetConsumeStatsRequest,
    GetProducerConnectionListRequest,
)

SYSTEM_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL", "CID_RMQ_SYS_TRANS",
    }
)  # fmt: skip
"""Groups that brokers and tools create for their own use."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
RELAY_TIMEOUT = 10.0  # seconds for a request that the broker relays to a client


def is_system_group(group: str) -> bool:
    """Whether a group belongs to brokers or tools.

    >>> is_system_group("TOOLS_CONSUMER"), is_system_group("billing")
    (True, False)
    """
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


class GroupAdmin(AdminRequests):
    """Administers consumer groups."""

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

    async def group_names(self, *, system: bool = False) -> list[str]:
        """The names of all groups of all masters; with `system` also those of brokers and tools."""
        tables = await asyncio.gather(*(self.groups(address) for address in await self.masters()))
        names = {name for table in tables for name in table.subscription_group_table}
        return sorted(name for name in names if system or not is_system_group(name))

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """The offsets of a group by queue."""
        header = GetConsumeStatsRequest(group, topic)
        addresses = await (self._readers_of(topic) if topic else self._readers_of_group(retry_topic(group)))
        found = await self._ask_each(addresses, RequestCode.GET_CONSUME_STATS, header, ConsumeStats.decode)
        table = {queue: offsets for stats in found for queue, offsets in stats.offset_table.items()}
        return ConsumeStats(table, sum(stats.consume_tps for stats in found))

    async def consumer_connections(self, group: str, *, address: str | None = None) -> ConsumerConnection:
        """The consumers of a group that are online; BrokerRefused with code CONSUMER_NOT_ONLINE when there are none."""
        code, header = RequestCode.GET_CONSUMER_CONNECTION_LIST, GetConsumerConnectionListRequest(group)
        addresses = [address] if address is not None else await self._readers_of_group(retry_topic(group))
        return await self._first_answer(addresses, code, header, ConsumerConnection.decode)

    async def producer_connections(self, group: str, topic: str) -> ProducerConnection:
        """The producers of a group that are online."""
        header = GetProducerConnectionListRequest(group)
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST
        return await self._first_answer(await self._readers_of(topic), code, header, ProducerConnection.decode)

    async def producers(self, address: str) -> dict[str, list[ProducerInfo]]:
        """All producers that a broker knows, by group."""
        response = await self._running().wire.ask(address, RequestCode.GET_ALL_PRODUCER_INFO)
        return ProducerTableInfo.decode(response.body).data

    async def consumer_running_info(
        self, group: str, client_id: str, *, stack: bool = False, address: str | None = None
    ) -> ConsumerRunningInfo:
        """The running info of a consumer: its queues, offsets, rates and, with `stack`, its threads."""
        header = GetConsumerRunningInfoRequest(group, client_id, stack)
        addresses = [address] if address is not None else await self._readers_of_group(retry_topic(group))
        return await self._relayed(addresses, RequestCode.GET_CONSUMER_RUNNING_INFO, header)

    async def _relayed(
        self, addresses: list[str], code: RequestCode, header: GetConsumerRunningInfoRequest
    ) -> ConsumerRunningInfo:
        failed: ArianeError | None = None
        for address in addresses:
            try:
                response = await self._running().wire.ask(address, code, header, timeout=RELAY_TIMEOUT)
                return ConsumerRunningInfo.decode(response.body)
            except ArianeError as error:
                failed = error
        assert failed is not None
        raise failed

    async def consume_directly(
        self, group: str, client_id: str, offset_id: str, *, address: str
    ) -> ConsumeMessageDirectlyResult:
        """Have one client consume one message of the broker at `address` now, whatever its offsets are."""
        header = ConsumeMessageDirectlyRequest(group, client_id, offset_id)
        response = await self._running().wire.ask(
            address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout=RELAY_TIMEOUT
        )
        return ConsumeMessageDirectlyResult.decode(response.body)
