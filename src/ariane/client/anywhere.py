"""Coroutines that may begin in the thread of whoever calls them.

A thread that hands a whole coroutine to the loop pays for a task and two changes of threads, which cost more than all
else in a request. So a method marked `anywhere` does what any thread may do, then awaits a `Question`, which can be
asked there too; before it does what only the loop's thread may, it awaits `Home`.
"""

import asyncio
from collections.abc import Generator
from typing import Any, TypeVar

from ariane.errors import RequestTimeout
from ariane.protocol.command import Command
from ariane.remoting import Connection
from ariane.remoting.line import Line

F = TypeVar("F")


def anywhere(method: F) -> F:
    """Marks a coroutine function for which `scripts/derive_sync.py` writes `Portal.begin`."""
    return method


class Home:
    """Await it to go on in the loop's thread. Only `Portal.begin` runs coroutines elsewhere, and takes them there."""

    __slots__ = ("loop",)

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def __await__(self) -> Generator[Any, None, None]:
        if asyncio._get_running_loop() is not self.loop:
            yield self


class Question:
    """A request in bytes; awaiting it sends it and gives the answer.

    In the loop a future waits for the answer. Another thread asks on a line of its own, if that is free.
    """

    __slots__ = ("_connection", "_data", "_home", "_line", "_opaque", "_started", "_timeout")

    def __init__(
        self,
        connection: Connection,
        line: Line | None,
        home: Home,
        data: bytes,
        opaque: int,
        started: float,
        timeout: float,
    ) -> None:
        self._connection = connection
        self._line = line
        self._home = home
        self._data = data
        self._opaque = opaque
        self._started = started
        self._timeout = timeout

    @property
    def address(self) -> str:
        """Where it goes."""
        return self._connection.address

    def __await__(self) -> Generator[Any, None, Command]:
        if asyncio._get_running_loop() is not self._home.loop:
            if self._line is not None and self._line.take():
                return self._line.ask(self._data, self._opaque, self._timeout)
            yield self._home
        return (yield from self._ask_here())

    def _ask_here(self) -> Generator[Any, None, Command]:
        future: asyncio.Future[Command] = self._home.loop.create_future()
        self._connection.submit_encoded(self._data, self._opaque, self._timeout, future)
        try:
            return (yield from future)
        except RequestTimeout:
            if self._connection.last_read < self._started:  # nothing at all came: the peer is gone without a word
                self._connection.close(f"silent for {self._timeout:g} s")
            raise
        except asyncio.CancelledError:
            self._connection.forget(self._opaque)
            raise
