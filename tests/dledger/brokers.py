"""Brokers of one DLedger group in this process, with a name server."""

import asyncio
from pathlib import Path
from typing import Any

from ariane import Message, aio
from ariane.broker.server import Broker
from ariane.env import Env
from ariane.errors import ArianeError
from ariane.namesrv import NameServer, NamesrvOptions
from tests.broker.talk import small_options
from tests.dledger.group import until
from tests.peers import free_port


class BrokerGroup:
    """Brokers n0, n1, n2 of the group and broker name `ledger`."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.brokers: dict[str, Broker] = {}
        self.peers = ";".join(f"n{n}-127.0.0.1:{port}" for n, port in enumerate(free_port() for _ in range(3)))
        self.name_server: NameServer | None = None
        self._options = options
        self._ports: dict[str, int] = {}

    @property
    def name_servers(self) -> str:
        assert self.name_server is not None
        return self.name_server.address

    async def start_name_server(self) -> None:
        if self.name_server is None:
            home = self.root / "namesrv"
            home.mkdir()
            text = f"listenPort = 0\nbindAddress = 127.0.0.1\nrocketmqHome = {home}\nkvConfigPath = {home}/kv.json\n"
            name_server = NameServer(NamesrvOptions.load(text), Env())
            await name_server.start()
            self.name_server = name_server

    async def start(self, *ids: str) -> None:
        await self.start_name_server()
        for id in ids or ("n0", "n1", "n2"):
            self._ports.setdefault(id, free_port(-2, 1))
            options = small_options(
                self.root / id,
                brokerName="ledger",
                namesrvAddr=self.name_servers,
                enableDLegerCommitLog=True,
                dLegerGroup="ledger",
                dLegerPeers=self.peers,
                dLegerSelfId=id,
                listenPort=self._ports[id],
                **self._options,
            )
            broker = Broker(options, Env())
            await broker.start()
            self.brokers[id] = broker

    async def stop(self, *ids: str) -> None:
        for id in ids or tuple(self.brokers):
            await self.brokers.pop(id).stop()
        if not ids and self.name_server is not None:
            await self.name_server.stop()

    async def master(self) -> str:
        """The id of the broker that accepts messages and is registered as master, once there is one."""
        found: list[str] = []

        def accepting() -> bool:
            found[:] = [
                id for id, broker in self.brokers.items() if broker.store.health.accepts and self._known(broker)
            ]
            return bool(found)

        await until(accepting)
        return found[0]

    def _known(self, broker: Broker) -> bool:
        assert self.name_server is not None
        return self.registered().get(0) == broker.address

    def bodies(self, id: str, topic: str) -> list[str]:
        """The messages of a topic in the queues of a member."""
        store = self.brokers[id].store
        found = []
        for name, queue in sorted(store.queues()):
            if name == topic:
                for offset in range(store.max_offset(topic, queue)):
                    unit = store.unit_at(store.physical_offset(topic, queue, offset))
                    assert unit is not None
                    found.append(unit.body.decode())
        return found

    def registered(self) -> dict[int, str]:
        """Addresses by brokerId, as the name server has them."""
        assert self.name_server is not None
        table = self.name_server._routes.cluster_info().broker_addr_table
        return dict(table["ledger"].broker_addrs) if "ledger" in table else {}


async def send(group: BrokerGroup, topic: str, count: int, label: str) -> list[str]:
    """Send messages, each as often as it takes; returns the bodies."""
    sent = []
    async with aio.Producer(
        "senders", name_servers=group.name_servers, send_timeout=5.0, route_interval=0.2
    ) as producer:
        for n in range(count):
            body = f"{label}{n}"
            async with asyncio.timeout(120):
                while True:
                    try:
                        await producer.send(Message(topic, body.encode(), keys=body))
                        break
                    except ArianeError:
                        await asyncio.sleep(0.1)
            sent.append(body)
    return sent
