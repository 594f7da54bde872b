"""Appends of a leader that wait for a majority."""

import logging
from collections import deque
from collections.abc import Callable

from ariane.env import Clock
from ariane.store import PutStatus

log = logging.getLogger("ariane.dledger")

Committed = Callable[[PutStatus], None]


class Waiter:
    """An append that waits for a majority."""

    __slots__ = ("deadline", "done", "end")

    def __init__(self, end: int, deadline: float, done: Committed) -> None:
        self.end = end
        self.deadline = deadline
        self.done = done

    def settle(self, status: PutStatus) -> None:
        """Report the outcome. An exception of the callback does not affect the group."""
        try:
            self.done(status)
        except Exception:
            log.exception("an append could not be answered")


class PendingAppends:
    """The waiting appends in the order of the log."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._timeout = timeout_ms / 1000
        self._waiters: deque[Waiter] = deque()

    def add(self, end: int, done: Committed) -> None:
        """Call `done` when the log is committed up to `end`, or on a time-out, or when the leadership is lost."""
        self._waiters.append(Waiter(end, self._clock.monotonic() + self._timeout, done))

    def committed(self, end: int) -> None:
        """Answer the appends that are committed."""
        waiters = self._waiters
        while waiters and waiters[0].end <= end:
            waiters.popleft().settle(PutStatus.OK)

    def lose(self, reason: str) -> None:
        """Answer all with an unknown outcome."""
        if self._waiters:
            log.warning("%d messages were not acknowledged: %s", len(self._waiters), reason)
        while self._waiters:
            self._waiters.popleft().settle(PutStatus.UNKNOWN_ERROR)

    async def expire(self) -> None:
        """Answer the appends that timed out; their messages may still be committed."""
        while True:
            await self._clock.sleep(0.1)
            now = self._clock.monotonic()
            while self._waiters and self._waiters[0].deadline <= now:
                self._waiters.popleft().settle(PutStatus.OS_PAGE_CACHE_BUSY)
