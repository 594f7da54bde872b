"""Coroutines that may begin in the thread of whoever calls them.

A thread that hands a whole coroutine to the loop pays for a task and two changes of threads. One that runs it by itself
up to the bytes of the request pays for the answer only. So a method marked `anywhere` does what any thread may do, then
awaits a `Question`; before it does what only the loop's thread may, it awaits `Home`.
"""

import asyncio
import threading
from collections.abc import Generator
from typing import Any, TypeVar

from ariane.errors import RequestTimeout
from ariane.protocol.command import Command
from ariane.remoting import Connection

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

    In the loop a future waits for the answer, in another thread a bare lock, which is the cheapest thing to wait on.
    """

    __slots__ = ("_connection", "_data", "_error", "_home", "_opaque", "_response", "_started", "_timeout", "gate")

    def __init__(
        self, connection: Connection, home: Home, data: bytes, opaque: int, started: float, timeout: float
    ) -> None:
        self._connection = connection
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
        if asyncio._get_running_loop() is self._home.loop:
            return (yield from self._ask_here())
        self.gate = threading.Lock()
        self.gate.acquire()
        self._response: Command | None = None
        self._error: BaseException | None = None
        yield self
        return self._outcome()

    def _ask_here(self) -> Generator[Any, None, Command]:
        future: asyncio.Future[Command] = self._home.loop.create_future()
        self._connection.submit_encoded(self._data, self._opaque, self._timeout, future)
        try:
            return (yield from future)
        except RequestTimeout:
            self._close_if_silent()
            raise
        except asyncio.CancelledError:
            self._connection.forget(self._opaque)
            raise

    def post(self) -> None:
        """Send it, in the loop's thread, for a thread that waits at the gate."""
        self._connection.submit_encoded(self._data, self._opaque, self._timeout, self)

    def forget(self) -> None:
        """The thread does not wait any more; called in the loop's thread."""
        self._connection.forget(self._opaque)

    def done(self) -> bool:
        return self._response is not None or self._error is not None

    def set_result(self, result: Command, /) -> None:
        self._response = result
        self.gate.release()

    def set_exception(self, exception: BaseException, /) -> None:
        if isinstance(exception, RequestTimeout):
            self._close_if_silent()
        self._error = exception
        self.gate.release()

    def _close_if_silent(self) -> None:
        """Nothing at all came back: the peer is gone without a word."""
        if self._connection.last_read < self._started:
            self._connection.close(f"silent for {self._timeout:g} s")

    def _outcome(self) -> Command:
        if self._response is not None:
            return self._response
        assert self._error is not None
        raise self._error
