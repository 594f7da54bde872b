"""Our name server and broker in a thread of their own, for tests whose clients are programs outside."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ariane.broker.server import Broker
from ariane.env import Env
from ariane.namesrv import NameServer, NamesrvOptions
from tests.broker.talk import small_options
from tests.peers import free_port

T = TypeVar("T")
START = 120.0


class LoopThread:
    """An event loop that runs in a thread; `run` waits for a coroutine there."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="cluster")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float = START) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop's thread, where the broker's tables may be looked at."""

        async def calling() -> T:
            return function()

        return self.run(calling())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Cluster:
    """One name server and any number of brokers."""

    def __init__(self, folder: Path, loop: LoopThread) -> None:
        self._folder = folder
        self._loop = loop
        self._name_server: NameServer | None = None
        self._name_server_address = ""
        self.brokers: dict[str, Broker] = {}

    @property
    def namesrv(self) -> str:
        """The address of the name server, as Apache's `-n` takes it."""
        if not self._name_server_address:
            self.start_name_server()
        return self._name_server_address

    @property
    def broker(self) -> Broker:
        """The first broker."""
        return next(iter(self.brokers.values()))

    @property
    def broker_address(self) -> str:
        return self.broker.address

    def start_name_server(self, **changes: Any) -> None:
        """Start ours, with options by their RocketMQ names; without this call the first broker does."""
        home = self._folder / "namesrv"
        home.mkdir(exist_ok=True)
        options = NamesrvOptions.load(
            f"listenPort = 0\nbindAddress = 127.0.0.1\nrocketmqHome = {home}\nkvConfigPath = {home}/kvConfig.json\n"
            + "\n".join(f"{name} = {value}" for name, value in changes.items())
        )
        server = self._loop.call(lambda: NameServer(options, Env()))
        self._loop.run(server.start())
        self._name_server = server
        self._name_server_address = server.address

    def use_name_server(self, address: str) -> None:
        """Register brokers with a name server that somebody else runs."""
        self._name_server_address = address

    def start_broker(self, name: str = "broker-a", **options: Any) -> Broker:
        """Start a broker; options by their RocketMQ names."""
        settings = small_options(
            self._folder / name,
            **{
                "brokerName": name,
                "namesrvAddr": self.namesrv,
                "listenPort": free_port(-2, 1),
                "osPageCacheBusyTimeOutMills": 20_000,  # a busy machine is no reason to refuse messages
                **options,
            },
        )
        broker = self._loop.call(lambda: Broker(settings, Env()))
        self._loop.run(broker.start())
        self.brokers[name] = broker
        return broker

    def start_slave(self, name: str = "slave", **options: Any) -> Broker:
        """Start a slave; `brokerName` is its master's."""
        return self.start_broker(name, brokerId=1, brokerRole="SLAVE", **options)

    def stop_broker(self, name: str = "broker-a") -> None:
        self._loop.run(self.brokers.pop(name).stop())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    def call(self, function: Callable[[], T]) -> T:
        return self._loop.call(function)

    def stop(self) -> None:
        for name in list(self.brokers):
            self.stop_broker(name)
        if self._name_server is not None:
            self._loop.run(self._name_server.stop())
            self._name_server = None


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster without brokers yet, stopped at the end."""
    loop = LoopThread()
    cluster = Cluster(folder, loop)
    try:
        yield cluster
    finally:
        try:
            cluster.stop()
        finally:
            loop.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Our name server and one broker, shared by the tests of a file: use names from `unique`."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        running.start_broker()
        yield running


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of the test's own, without brokers yet."""
    with running_cluster(tmp_path) as running:
        yield running
