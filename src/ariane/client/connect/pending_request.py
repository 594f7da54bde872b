"""Coroutines that may start in the caller's thread.

Handing a whole coroutine to the loop costs a task and two thread switches, more than all other work of a request. A
method marked `any_thread` starts with thread-safe work, then awaits a `PendingRequest`, which any thread can send;
before work that is reserved to the loop's thread, it awaits `LoopThread`.
"""

import asyncio
from collections.abc import Generator
from typing import Any, TypeVar

from ariane.errors import RequestTimeout
from ariane.protocol.command import Command
from ariane.remoting import Connection
from ariane.remoting.blocking import ExclusiveConnection

F = TypeVar("F")


def any_thread(method: F) -> F:
    """Mark a coroutine function for which `scripts/derive_sync.py` writes `Portal.begin`."""
    return method


class LoopThread:
    """Await it to continue in the loop's thread; `Portal.begin` moves a coroutine there that it started elsewhere."""

    __slots__ = ("loop",)

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def __await__(self) -> Generator[Any, None, None]:
        if asyncio._get_running_loop() is not self.loop:
            yield self


class PendingRequest:
    """An encoded request; awaiting it sends it and returns the response.

    In the loop's thread a future waits for the response. Another thread uses a blocking connection, if one is free.
    """

    __slots__ = ("_blocking", "_connection", "_data", "_loop_thread", "_opaque", "_started", "_timeout")

    def __init__(
        self,
        connection: Connection,
        blocking: ExclusiveConnection | None,
        loop_thread: LoopThread,
        data: bytes,
        opaque: int,
        started: float,
        timeout: float,
    ) -> None:
        self._connection = connection
        self._blocking = blocking
        self._loop_thread = loop_thread
        self._data = data
        self._opaque = opaque
        self._started = started
        self._timeout = timeout

    @property
    def address(self) -> str:
        """The address of the peer."""
        return self._connection.address

    def __await__(self) -> Generator[Any, None, Command]:
        if asyncio._get_running_loop() is not self._loop_thread.loop:
            if self._blocking is not None and self._blocking.take():
                return self._blocking.ask(self._data, self._opaque, self._timeout)
            yield self._loop_thread
        future: asyncio.Future[Command] = self._loop_thread.loop.create_future()
        self._connection.submit_encoded(self._data, self._opaque, self._timeout, future)
        try:
            return (yield from future)
        except RequestTimeout:
            if self._connection.last_read < self._started:  # no bytes received: the peer may be gone
                self._connection.close(f"silent for {self._timeout:g} s")
            raise
        except asyncio.CancelledError:
            self._connection.forget(self._opaque)
            raise
