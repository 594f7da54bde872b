"""A clock that runs by itself and can be pushed on."""

import asyncio
import heapq
import itertools
import threading
from contextlib import suppress

from ariane.env import SystemClock


class MovableClock:
    """The machine's clock, moved on by as much as a test wants; whoever sleeps until then wakes at once.

    It may be moved from any thread.

    >>> clock = MovableClock()
    >>> before = clock.now_ms()
    >>> clock.advance(3600)
    >>> clock.now_ms() - before >= 3_600_000
    True
    """

    def __init__(self) -> None:
        self._real = SystemClock()
        self._moved = 0.0
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self._real.now_ms() + int(self._moved * 1000)

    def monotonic(self) -> float:
        return self._real.monotonic() + self._moved

    async def sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        with self._lock:
            heapq.heappush(self._sleepers, (self.monotonic() + seconds, next(self._order), loop, woken))
        timer = loop.call_later(max(0.0, seconds), _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> None:
        """Move time on."""
        with self._lock:
            self._moved += seconds
            now = self.monotonic()
            due = []
            while self._sleepers and (self._sleepers[0][0] <= now or self._sleepers[0][3].done()):
                due.append(heapq.heappop(self._sleepers))
        for _, _, loop, woken in due:
            with suppress(RuntimeError):  # that loop is closed: nobody sleeps there any more
                loop.call_soon_threadsafe(_wake, woken)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
