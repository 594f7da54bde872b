"""Selects the servers for an administrative request."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ariane.client.connect.lifecycle import Lifecycle
from ariane.client.connect.routes import MASTER
from ariane.client.options import ClientOptions
from ariane.errors import BrokerRefused, ClientError, RouteMissing
from ariane.protocol.bodies import ClusterInfo, TopicRouteData
from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import Header

T = TypeVar("T")
FOREVER = (1 << 63) - 1
"""The latest time, in milliseconds."""


class AdminRequests(Lifecycle):
    """Sends requests to masters, to the brokers of a topic, and to name servers."""

    @property
    def options(self) -> ClientOptions:
        """The options of this client."""
        return self._client_options

    async def cluster_info(self, name_server: str | None = None) -> ClusterInfo:
        """Brokers and clusters, as a name server has them: this one, or the one in use."""
        code, running = RequestCode.GET_BROKER_CLUSTER_INFO, self._running()
        response = await (running.wire.ask(name_server, code) if name_server else running.routes.names.ask(code))
        return ClusterInfo.decode(response.body)

    async def masters(self, cluster: str | None = None) -> list[str]:
        """The addresses of all masters, or of one cluster's; ClientError when there is no such cluster."""
        return [addresses[MASTER] for addresses in await self._brokers_of(cluster) if MASTER in addresses]

    async def addresses(self, cluster: str | None = None) -> list[str]:
        """The addresses of all brokers, slaves among them, or of one cluster's."""
        return [address for addresses in await self._brokers_of(cluster) for _, address in sorted(addresses.items())]

    async def name_servers(self) -> list[str]:
        """The addresses of the name servers."""
        names = self._running().routes.names
        if not names.addresses:
            await names.discover()
        return list(names.addresses)

    async def route(self, topic: str) -> TopicRouteData:
        """The brokers and queues of a topic; RouteMissing when there is none."""
        return (await self._running().routes.refresh(topic)).data

    async def _brokers_of(self, cluster: str | None) -> list[dict[int, str]]:
        """Addresses by broker id, for each broker name in order."""
        info = await self.cluster_info()
        if cluster is None:
            names = sorted(info.broker_addr_table)
        elif cluster in info.cluster_addr_table:
            names = sorted(info.cluster_addr_table[cluster])
        else:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none: is a broker running?"
            raise ClientError(f"there is no cluster {cluster!r}; the name server knows {known}")
        return [info.broker_addr_table[name].broker_addrs for name in names if name in info.broker_addr_table]

    async def _on_masters(
        self, address: str | None, code: RequestCode, header: Header | None, body: bytes = b""
    ) -> None:
        for one in [address] if address is not None else await self._masters_to_change():
            await self._running().wire.ask(one, code, header, body)

    async def _masters_to_change(self, cluster: str | None = None) -> list[str]:
        """All masters, or those of one cluster; ClientError when there is none."""
        addresses = await self.masters(cluster)
        if not addresses:
            raise ClientError(
                "no master is registered with the name server, so nothing was changed: is a broker running?"
            )
        return addresses

    async def _masters_of(self, topic: str) -> list[str]:
        """The master of each broker of a topic, to change something there; ClientError when one is gone."""
        brokers = (await self.route(topic)).broker_datas
        for broker in brokers:
            if MASTER not in broker.broker_addrs:
                raise ClientError(
                    f"broker {broker.broker_name} of topic {topic} has no master now, so nothing was changed: "
                    "start it, or promote a slave"
                )
        return [broker.broker_addrs[MASTER] for broker in brokers]

    async def _readers_of(self, topic: str) -> list[str]:
        """One address of each broker of a topic to ask: the master's, or a slave's while there is no master."""
        data = await self.route(topic)
        return [_reader(broker.broker_addrs) for broker in data.broker_datas if broker.broker_addrs]

    async def _readers_of_group(self, group_topic: str) -> list[str]:
        """The same for the brokers of a group's retry topic; all brokers when it has none (a group that only pulls)."""
        try:
            return await self._readers_of(group_topic)
        except RouteMissing:
            return [_reader(addresses) for addresses in await self._brokers_of(None) if addresses]

    async def _ask_each(
        self, addresses: list[str], code: RequestCode, header: Header | None, decode: Callable[[bytes], T]
    ) -> list[T]:
        wire = self._running().wire
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


def _reader(addresses: dict[int, str]) -> str:
    return addresses[min(addresses)]  # the master's id is the smallest
