"""Tests of applications: listeners run in memory, in milliseconds, or against a cluster in this process.

async with TestApp(app):
    await app.send("orders", Order(id=1))
    reserve.mock.assert_called_once_with(Order(id=1))
"""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import DEFAULT, MagicMock

from ariane.app import Ariane, Listener
from ariane.app.clients import Clients
from ariane.message import ReceivedMessage
from ariane.testing.app_memory import MemoryClients

if TYPE_CHECKING:
    from ariane.testing.cluster import Cluster


class TestApp:
    """Starts an application for a test; each listener then has a `mock` that records its payloads.

    In memory a send returns after all listeners have handled the message, tries included. With a cluster
    (`TestApp(app, cluster=cluster)`) everything takes its real way; `await test.handled(listener, 3)` waits for it.
    """

    __test__ = False  # pytest must not take it for a test

    def __init__(self, app: Ariane, *, cluster: "Cluster | None" = None) -> None:
        self.app = app
        self._cluster = cluster
        self._memory = MemoryClients()
        self._before: Clients | None = None
        self._called = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._before = self.app.clients
        self.app.clients = self._memory if self._cluster is None else Clients((self._cluster.name_servers,))
        loop = asyncio.get_running_loop()

        def called(*payloads: object) -> object:
            loop.call_soon_threadsafe(self._called.set)
            return DEFAULT

        for listener in self.app.listeners:
            listener.record(MagicMock(name=listener.name, side_effect=called))
        try:
            await self.app.start()
        except BaseException:
            self._restore()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.app.stop()
        finally:
            self._restore()

    def _restore(self) -> None:
        assert self._before is not None
        self.app.clients = self._before
        for listener in self.app.listeners:
            listener.record(None)

    def sent(self, topic: str) -> list[ReceivedMessage]:
        """In memory: all messages that were sent to a topic."""
        return list(self._memory.topics.get(topic, ()))

    def dead_letters(self, group: str) -> list[ReceivedMessage]:
        """In memory: the messages that a group gave up."""
        return list(self._memory.dead_letters.get(group, ()))

    async def check_transactions(self) -> None:
        """In memory: ask the transaction listeners about every undecided half message, as a broker does in time."""
        await self._memory.check_transactions()

    async def handled(self, listener: Listener[..., Any], count: int = 1, timeout: float = 60.0) -> None:
        """Wait until a listener has got so many payloads."""
        async with asyncio.timeout(timeout):
            while listener.mock.call_count < count:
                self._called.clear()
                await self._called.wait()
