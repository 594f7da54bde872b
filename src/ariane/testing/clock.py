"""A clock that runs, and can be moved forward."""

import asyncio
import heapq
import itertools
import threading
from contextlib import suppress

from ariane.env import SystemClock


class MovableClock:
    """The system clock, which a test can move forward; sleepers that are due wake at once.

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
            while self._sleepers and self._sleepers[0][3].done():
                heapq.heappop(self._sleepers)
            heapq.heappush(self._sleepers, (self.monotonic() + seconds, next(self._order), loop, woken))
        timer = loop.call_later(max(0.0, seconds), _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        with self._lock:
            self._moved += seconds
            now = self.monotonic()
            due = []
            while self._sleepers and (self._sleepers[0][0] <= now or self._sleepers[0][3].done()):
                due.append(heapq.heappop(self._sleepers))
        for _, _, loop, woken in due:
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(_wake, woken)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
