"""Several whole brokers in the test's event loop: a name server, a master, slaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ariane.broker.server import Broker
from ariane.env import Env
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.protocol.command import Command
from tests.broker.talk import PATIENCE, Talk, small_options
from tests.peers.jvm import free_port


class Brokers:
    """Brokers of one name, and the name server that they register with."""

    def __init__(self, folder: Path, name_server: NameServer) -> None:
        self.folder = folder
        self.name_server = name_server
        self.running: dict[str, Broker] = {}
        self._talks: list[Talk] = []
        self._ports: dict[str, int] = {}

    @classmethod
    @asynccontextmanager
    async def in_folder(cls, folder: Path) -> AsyncIterator[Brokers]:
        options = NamesrvOptions.load(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder}/kv.json\n")
        name_server = NameServer(options, Env())
        await name_server.start()
        brokers = cls(folder, name_server)
        try:
            yield brokers
        finally:
            await brokers.stop_all()
            await name_server.stop()

    async def start(self, name: str, **options: Any) -> Broker:
        """Start a broker in the folder of its name, on the same port each time."""
        port = self._ports.setdefault(name, free_port(-2, 1))
        changes = {"brokerName": "pair", "namesrvAddr": self.name_server.address, "listenPort": port, **options}
        broker = Broker(small_options(self.folder / name, **changes))
        await broker.start()
        self.running[name] = broker
        return broker

    async def master(self, **options: Any) -> Broker:
        return await self.start("master", **options)

    async def slave(self, name: str = "slave", **options: Any) -> Broker:
        return await self.start(name, **{"brokerRole": "SLAVE", "brokerId": 1, **options})

    async def stop(self, name: str) -> None:
        await self.running.pop(name).stop()

    async def stop_all(self) -> None:
        for talk in self._talks:
            await talk.client.close()
        for name in reversed(list(self.running)):
            await self.stop(name)

    def talk(self, broker: Broker) -> Talk:
        """A client of one broker."""
        talk = Talk(broker)
        self._talks.append(talk)
        return talk


async def until(ready: Callable[[], object], what: str = "") -> None:
    """Wait until something is so; real time passes, for sockets and threads are involved."""
    async with asyncio.timeout(PATIENCE):
        while not ready():
            await asyncio.to_thread(time.sleep, 0.01)


async def copied(master: Broker, slave: Broker) -> None:
    """Wait until the slave has the master's log and has dispatched it."""
    await until(lambda: slave.store.log_max == master.store.log_max and not slave.store.dispatch_behind)


def ok(answer: Command) -> Command:
    assert answer.code == 0, answer
    return answer
