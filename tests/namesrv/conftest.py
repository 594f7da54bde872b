"""A name server on a real socket, its clock in the test's hand."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ariane.env import Env, ManualClock, SystemClock
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.protocol.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import Header, RegisterBrokerRequest
from ariane.protocol.units import body_crc
from ariane.remoting import Client

Start = Callable[..., Awaitable[NameServer]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def start(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Start]:
    """Start name servers with a KV file in the test's folder; they stop with the test."""
    servers: list[NameServer] = []

    async def run(**options: Any) -> NameServer:
        changes = {"listenPort": 0, "kvConfigPath": str(tmp_path / "kv" / "kvConfig.json"), **options}
        server = NameServer(namesrv_options(tmp_path, changes), Env(clock=clock))
        await server.start()
        servers.append(server)
        return server

    yield run
    for server in servers:
        await server.stop()


def namesrv_options(tmp_path: Path, changes: dict[str, Any]) -> NamesrvOptions:
    """Options as if read from `namesrv.conf` in a folder of the test."""
    text = "".join(f"{key} = {value}\n" for key, value in changes.items())
    return NamesrvOptions.load(text, file=str(tmp_path / "namesrv.conf"))


class Asker:
    """A client of one name server."""

    def __init__(self, server: NameServer, client: Client) -> None:
        self.address = server.address
        self.client = client

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"", **options: Any) -> Command:
        fields = header.fields() if header else {}
        return await self.client.request(self.address, Command(code, fields, body, **options), 30)

    async def register(self, name: str = "a", topics: dict[str, Any] | None = None, **options: Any) -> Command:
        request = registration(name, topics or {}, **options)
        return await self.client.request(self.address, request, 30)


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[NameServer], Asker]]:
    """Clients with a connection of their own each."""
    clients: list[Client] = []

    def dial(server: NameServer) -> Asker:
        clients.append(Client(clock=SystemClock()))
        return Asker(server, clients[-1])

    yield dial
    for client in clients:
        await client.close()


def registration(
    name: str,
    topics: dict[str, Any],
    *,
    cluster: str = "DefaultCluster",
    broker_id: int = 0,
    address: str = "",
    version: int = 1,
    filters: list[str] | None = None,
    compressed: bool = False,
    crc: int | None = None,
) -> Command:
    """A REGISTER_BROKER request. Topics are `{name: queues}` or `{name: TopicConfig}`."""
    configs = {t: c if isinstance(c, TopicConfig) else TopicConfig(t, c, c) for t, c in topics.items()}
    table = TopicConfigTable(DataVersion(1_700_000_000_000, version), configs)
    wrapped = RegisterBrokerBody(table, filters or [])
    body = wrapped.compress() if compressed else wrapped.encode()
    header = RegisterBrokerRequest(
        broker_name=name,
        broker_addr=address or f"127.0.0.1:{10911 + broker_id}",
        cluster_name=cluster,
        ha_server_addr="127.0.0.1:10912",
        broker_id=broker_id,
        compressed=compressed,
        body_crc32=body_crc(body) if crc is None else crc,
    )
    return Command(RequestCode.REGISTER_BROKER, header.fields(), body)
