"""Flushes the log: group commit for callers that wait, intervals for the rest."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from ariane.env import Clock
from ariane.protocol.units import stored_properties
from ariane.store.checkpoint import DurableEnd
from ariane.store.health import Health
from ariane.store.log.log import Log
from ariane.store.options import StoreOptions
from ariane.store.units.reading import has_zero_sector
from ariane.store.worker import Worker

log = logging.getLogger("ariane.store")

FlushDone = Callable[[bool], None]
_PAGE = 4096


class Waiter:
    """A caller that waits for the log to be durable up to `end`."""

    __slots__ = ("deadline", "done", "end", "served")

    def __init__(self, end: int, deadline: float, done: FlushDone) -> None:
        self.end = end
        self.deadline = deadline
        self.done = done
        self.served = False

    def serve(self, ok: bool) -> None:
        if not self.served:
            self.served = True
            self.done(ok)


class Round:
    """One sync of the log, run in the thread."""

    __slots__ = ("_durable_end", "_sync", "end", "store_time")

    def __init__(self, sync: Callable[[], None], end: int, store_time: int, durable_end: DurableEnd | None) -> None:
        self._sync = sync
        self._durable_end = durable_end
        self.end = end
        self.store_time = store_time

    def run(self) -> None:
        """Sync, and note the end if recovery will need to know it."""
        self._sync()
        if self._durable_end is not None:
            self._durable_end.save(self.end)


class Flusher:
    """Syncs the log in one thread. While a round runs, the next one gathers its waiters: one sync serves all of them.

    After a failed sync the state of the disk is unknown. Everything not synced before is written again from memory and
    synced once more; until that succeeds the store refuses messages.
    """

    def __init__(
        self,
        source: Log,
        options: StoreOptions,
        clock: Clock,
        worker: Worker,
        health: Health,
        durable_end: DurableEnd,
    ) -> None:
        self.flushed_time = 0  # store time of the last message that is durable
        self._log = source
        self.options = options
        self._clock = clock
        self._worker = worker
        self._health = health
        self._durable_end = durable_end
        self._gathering: list[Waiter] = []
        self._syncing: list[Waiter] = []
        self._deadlines: deque[Waiter] = deque()
        self._busy = False
        self._suspect = False
        self._wanted = False
        self._last_thorough = clock.monotonic()
        self._deadline_set = asyncio.Event()
        self._last_seen = -1  # the last unit before the end of the last round; -1: not known
        self.last_store_time: Callable[[], int] = int
        self.last_unit: Callable[[], int] = int

    # -- waiting callers -------------------------------------------------------------------------------------------

    def wait(self, end: int, done: FlushDone) -> None:
        """Call `done` with True when the log is durable up to `end`, with False when that failed or took too long."""
        if self.gather(end, done):
            self.begin()

    def gather(self, end: int, done: FlushDone) -> bool:
        """Like `wait`, but the caller begins the round. False when the log is durable up to `end` already."""
        if end <= self._log.flushed:
            done(True)
            return False
        waiter = Waiter(end, self._clock.monotonic() + self.options.sync_flush_timeout.total_seconds(), done)
        self._gathering.append(waiter)
        self._deadlines.append(waiter)
        self._deadline_set.set()
        return True

    def begin(self) -> None:
        """Start a round unless one is running; a running round starts the next one when it ends."""
        self._wanted = True
        if self._busy:
            return
        self._wanted = False
        self._busy = True
        self._syncing, self._gathering = self._gathering, []
        start, end = self._log.flushed, self._log.stored
        sync = self._log.sync_job(start, end, rewrite=self._suspect)
        note = self._durable_end if self._ends_like_a_tear(start, end) else None
        round_ = Round(sync, end, self.last_store_time(), note)
        self._worker.submit(round_.run, lambda error: self._ended(round_, error))

    def _ends_like_a_tear(self, start: int, end: int) -> bool:
        """Whether recovery could take the last unit before `end` for torn."""
        known = max(self.last_unit(), self._last_seen)  # units may follow it: replicated bytes are dispatched later
        if not max(self._log.min_offset, 0) <= known < end:
            known = self._log.next_unit(start)
        following = known
        at = stop = -1
        while 0 <= following < end:
            head = self._log.view(following, 4)
            size = 0 if head is None else int.from_bytes(head, "big")
            if not size or following + size > end:
                break
            at, stop = following, following + size
            following = self._log.next_unit(stop)
        self._last_seen = at
        span = self._log.span(at) if at >= 0 else None
        if span is None:
            return False
        base, _, memory = span
        properties = stored_properties(memory[at - base : stop - base])
        return 0 in properties and has_zero_sector(memory, stop - base, len(properties))

    def _ended(self, round_: Round, error: BaseException | None) -> None:
        self._busy = False
        if error is None:
            self._log.flushed = max(self._log.flushed, round_.end)
            self.flushed_time = round_.store_time
            self._suspect = False
            self._health.clear("flush")
        else:
            self._suspect = True
            self._health.fail("flush", f"the log could not be made durable: {error}")
        waiters, self._syncing = self._syncing, []
        if error is None:  # waiters added during the round may wait for bytes that it made durable
            waiters = waiters + self._gathering
            self._gathering = []
        for waiter in waiters:
            if error is None and waiter.end > round_.end:  # registered before its bytes arrived
                self._gathering.append(waiter)
            else:
                waiter.serve(error is None)
        if error is None and (self._gathering or self._wanted) and self._log.flushed < self._log.stored:
            self.begin()

    def cut(self, end: int, store_time: int) -> None:
        """The log was truncated at `end`; no round may be running. Waiters beyond `end` fail."""
        self.flushed_time = min(self.flushed_time, store_time)
        self._last_seen = -1
        gathered, self._gathering = self._gathering, []
        for waiter in gathered:
            if waiter.end > end:
                waiter.serve(False)
            else:
                self._gathering.append(waiter)

    def expire(self) -> None:
        """Fail the waiters that timed out; their messages may still become durable."""
        now = self._clock.monotonic()
        while self._deadlines and (self._deadlines[0].served or self._deadlines[0].deadline <= now):
            self._deadlines.popleft().serve(False)

    async def watch_deadlines(self) -> None:
        """Runs as long as the store does."""
        while True:
            await self._deadline_set.wait()
            self.expire()
            if self._deadlines:
                await self._clock.sleep(max(self._deadlines[0].deadline - self._clock.monotonic(), 0))
            else:
                self._deadline_set.clear()

    # -- intervals -----------------------------------------------------------------------------------------------

    async def run_intervals(self) -> None:
        """Flush from time to time, and try again after a failure."""
        while True:
            await self._clock.sleep(self.options.flush_interval.total_seconds())
            self.tick()

    def tick(self) -> None:
        now = self._clock.monotonic()
        dirty = self._log.stored // _PAGE - self._log.flushed // _PAGE
        thorough = now - self._last_thorough >= self.options.flush_thorough_interval.total_seconds()
        if thorough:
            self._last_thorough = now
        due = dirty >= self.options.flush_least_pages or thorough
        if self._suspect or self._gathering or (due and self._log.flushed < self._log.stored):
            self.begin()
