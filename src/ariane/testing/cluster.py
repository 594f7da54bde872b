"""A cluster in this process, for tests: name server and brokers in a thread of their own."""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from ariane.broker.config import BrokerOptions
from ariane.broker.server import Broker
from ariane.client.admin import Admin
from ariane.env import Env, SystemFiles
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.testing.clock import MovableClock
from ariane.testing.network import Link, LinkFaults

T = TypeVar("T")
PATIENCE = 120.0
NAME_SERVER = "namesrv"

SMALL = {
    "brokerClusterName": "DefaultCluster",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "listenPort": 0,
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20 * 10_000,
    "maxHashSlotNum": 4000,
    "maxIndexNum": 10_000,
    "diskMaxUsedSpaceRatio": 95,
    "rocketmq.broker.diskSpaceCleanForciblyRatio": 0.97,
    "rocketmq.broker.diskSpaceWarningLevelRatio": 0.99,
    "enablePropertyFilter": True,
    "serverChannelMaxIdleTimeSeconds": 1 << 30,  # connections stay when a test moves the clock by hours
}


class _BehindLink(Broker):
    """A broker that advertises the address of the link in front of it."""

    link: Link | None = None

    @property
    def address(self) -> str:
        return super().address if self.link is None or not self.link.address else self.link.address


class Network:
    """The cluster's network. `to` names a broker or `namesrv`; the default is all links."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def cut(self, to: str | None = None) -> None:
        """Break the open connections; new ones may be made."""
        self._cluster.run(self._each(to, None))

    def down(self, to: str | None = None) -> None:
        """Break the open connections and refuse new ones, until `restore`."""
        self._cluster.run(self._each(to, LinkFaults(down=True)))

    def delay(self, seconds: float, to: str | None = None) -> None:
        """Delay all data, both ways."""
        self._cluster.run(self._each(to, LinkFaults(delay=seconds)))

    def drop(self, to: str | None = None) -> None:
        """Lose all data without a sign, until `restore`."""
        self._cluster.run(self._each(to, LinkFaults(dropping=True)))

    def restore(self, to: str | None = None) -> None:
        """Remove all faults."""
        self._cluster.run(self._each(to, LinkFaults()))

    async def _each(self, to: str | None, faults: LinkFaults | None) -> None:
        links = self._cluster.links
        for link in links.values() if to is None else [links[to]]:
            if faults is None:
                link.cut()
            else:
                link.change(faults)


class Cluster:
    """A name server and brokers, ready in a fraction of a second.

    `config` are options of broker.conf by RocketMQ's names. `clock.advance(seconds)` moves the cluster's time on, and
    `network` makes its connections fail. Clients take `name_servers`.

    >>> with Cluster() as cluster:
    ...     cluster.create_topic("orders", queues=4)
    ...     cluster.name_servers.startswith("127.0.0.1:")
    True
    """

    def __init__(
        self, folder: Path | None = None, *, brokers: int = 1, config: Mapping[str, object] | None = None
    ) -> None:
        self.clock = MovableClock()
        self.network = Network(self)
        self.links: dict[str, Link] = {}
        self.brokers: dict[str, Broker] = {}
        self._names = [f"broker-{chr(ord('a') + i)}" for i in range(brokers)]
        self._config = dict(config or {})
        self._own_folder = folder is None
        self._folder = Path(tempfile.mkdtemp(prefix="ariane-cluster-")) if folder is None else folder
        self._env = Env(self.clock, SystemFiles(), Random())
        self._server: NameServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ariane-cluster", daemon=True)

    @property
    def name_servers(self) -> str:
        """The address for clients' `name_servers`."""
        return self.links[NAME_SERVER].address

    def start(self) -> Self:
        """Start everything."""
        self._thread.start()
        self.run(self._start())
        return self

    def stop(self) -> None:
        """Stop everything and remove the files, unless the folder was given."""
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
        if self._own_folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def advance(self, seconds: float) -> None:
        """Move the cluster's time forward."""
        self.clock.advance(seconds)

    def create_topic(self, topic: str, *, queues: int = 4, **options: Any) -> None:
        """Create a topic on every broker; it can be used at once."""
        self.run(self._create_topic(topic, queues, options))

    def stop_broker(self, name: str | None = None) -> None:
        """Stop a broker; its messages stay."""
        self.run(self._stop_broker(name or self._names[0]))

    def start_broker(self, name: str | None = None) -> None:
        """Start a broker again, at the same address."""
        self.run(self._start_broker(name or self._names[0]))

    def stop_name_server(self) -> None:
        """Stop the name server."""
        assert self._server is not None
        self.run(self._server.stop())

    def start_name_server(self) -> None:
        """Start the name server again, at the same address; the brokers register at once."""
        self.run(self._start_name_server())
        self.run(self._register())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the cluster's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _start(self) -> None:
        await self._start_name_server()
        for name in self._names:
            await self._start_broker(name)

    async def _start_name_server(self) -> None:
        places = {"bindAddress": "127.0.0.1", "listenPort": 0, "kvConfigPath": self._folder / "kvConfig.json"}
        options = {**places, "serverChannelMaxIdleTimeSeconds": 1 << 30}
        self._server = NameServer(NamesrvOptions.load(_properties(options)), self._env)
        await self._server.start()
        await self._link(NAME_SERVER, self._server.address)

    async def _link(self, name: str, target: str) -> Link:
        link = self.links.get(name)
        if link is None:
            link = self.links[name] = Link(target)
            await link.start()
        link.target = target
        return link

    async def _start_broker(self, name: str) -> None:
        store = self._folder / name
        places = {"storePathRootDir": store, "storePathCommitLog": store / "commitlog"}
        names = {"brokerName": name, "namesrvAddr": self.links[NAME_SERVER].target}
        values = {**SMALL, **places, **names, **self._config}
        broker = _BehindLink(BrokerOptions.load(_properties(values)), self._env)
        broker.link = await self._link(name, "")
        await broker.start()
        broker.link.target = f"127.0.0.1:{broker.port}"
        self.brokers[name] = broker

    async def _stop_broker(self, name: str) -> None:
        await self.brokers.pop(name).stop()
        self.links[name].cut()

    async def _register(self) -> None:
        for broker in self.brokers.values():
            await broker.registration.register()

    async def _create_topic(self, topic: str, queues: int, options: dict[str, Any]) -> None:
        async with Admin(name_servers=self.name_servers) as admin:
            await admin.create_topic(topic, queues=queues, **options)

    async def _stop(self) -> None:
        for name in list(self.brokers):
            await self._stop_broker(name)
        if self._server is not None:
            await self._server.stop()
        for link in self.links.values():
            await link.stop()


def _properties(values: Mapping[str, object]) -> str:
    return "\n".join(f"{key} = {_java(value)}" for key, value in values.items())


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
