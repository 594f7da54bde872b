"""Sends that wait for copies of their message."""

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ariane.env import Clock
from ariane.ha.options import HaOptions
from ariane.store import MessageStore, PutResult, PutStatus

Done = Callable[[PutStatus], None]


class Slaves(Protocol):
    """The part of a master used here: the number of slaves in sync, and their acknowledged offsets."""

    on_acknowledged: list[Callable[[], None]]

    def acknowledged(self, count: int) -> int: ...

    def in_sync(self) -> int: ...

    def kept_up(self, end: int) -> int: ...

    def needed(self) -> int: ...


class _Waiter:
    __slots__ = ("deadline", "done", "end", "served")

    def __init__(self, end: int, deadline: float, done: Done) -> None:
        self.end = end
        self.deadline = deadline
        self.done = done
        self.served = False

    def serve(self, status: PutStatus) -> None:
        if not self.served:
            self.served = True
            self.done(status)


class Replicated:
    """Calls back when the required number of slaves has a message; ordered by offset, so none blocks another.

    No slave in sync: SLAVE_NOT_AVAILABLE at once. Too slow: FLUSH_SLAVE_TIMEOUT. The message is stored in both cases.
    """

    def __init__(self, store: MessageStore, slaves: Slaves, options: HaOptions, clock: Clock) -> None:
        self.options = options
        self._store = store
        self._slaves = slaves
        self._clock = clock
        self._waiting: list[_Waiter] = []  # by offset
        self._deadlines: deque[_Waiter] = deque()
        self._watching: asyncio.Task[None] | None = None
        slaves.on_acknowledged.append(self.risen)

    @property
    def enough(self) -> bool:
        """Whether enough copies are in sync that a send may be accepted (minInSyncReplicas)."""
        least = self.options.min_in_sync_replicas
        return least <= 1 or self._slaves.in_sync() + 1 >= least

    def wait(self, result: PutResult, done: Done) -> None:
        """Call `done` with the status of a put when its copies exist, or have failed."""
        end = result.end_offset
        kept = self._slaves.kept_up(end)
        if kept < 0:
            needed = self._slaves.needed()
            if needed > self._slaves.in_sync():
                done(PutStatus.SLAVE_NOT_AVAILABLE)
                return
            kept = self._slaves.acknowledged(needed)
        if kept >= end:
            done(PutStatus.OK)
            return
        waiter = _Waiter(end, self._clock.monotonic() + self.options.slave_timeout, done)
        if self._waiting and self._waiting[-1].end > end:
            insort(self._waiting, waiter, key=_end)
        else:
            self._waiting.append(waiter)
        self._deadlines.append(waiter)
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    def risen(self) -> None:
        """Serve all sends whose message has enough copies now."""
        if not self._waiting:
            return
        end, count = self._slaves.acknowledged(self._slaves.needed()), 0
        for waiter in self._waiting:
            if waiter.end > end:
                break
            count += 1
        served = self._waiting[:count]
        del self._waiting[:count]
        for waiter in served:
            waiter.serve(PutStatus.OK)
        while self._deadlines and self._deadlines[0].served:
            self._deadlines.popleft()

    def expire(self) -> None:
        """Fail the sends that timed out; their messages may still be copied."""
        now = self._clock.monotonic()
        while self._deadlines and (self._deadlines[0].served or self._deadlines[0].deadline <= now):
            self._deadlines.popleft().serve(PutStatus.FLUSH_SLAVE_TIMEOUT)
        if self._waiting and self._waiting[0].served:
            self._waiting = [waiter for waiter in self._waiting if not waiter.served]

    def close(self) -> None:
        """This broker is no longer a master: answer all waiting sends."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if self.risen in self._slaves.on_acknowledged:
            self._slaves.on_acknowledged.remove(self.risen)
        waiting, self._waiting = self._waiting, []
        self._deadlines.clear()
        for waiter in waiting:
            waiter.serve(PutStatus.FLUSH_SLAVE_TIMEOUT)

    async def _watch(self) -> None:
        while self._deadlines:
            await self._clock.sleep(max(self._deadlines[0].deadline - self._clock.monotonic(), 0))
            self.expire()
        self._watching = None


def _end(waiter: _Waiter) -> int:
    return waiter.end
