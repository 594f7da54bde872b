"""The read cycle: what happens once for all requests of one socket read.

The order matters. `begin` reads the clock; the handlers of the requests run, appending to the log
and answering into the connection's buffer; `end` commits the log's tail, dispatches it to queues and index, and wakes
the waiting pulls; then the connection writes all answers at once. An answer never leaves before its message can be
pulled. A message appended outside of a cycle is committed at once and dispatched in the next turn of the event loop.
"""

from collections.abc import Sized
from typing import Final, Protocol

from ariane.env import Clock

_QUICK: Final = 0.001  # seconds: below this a put counts as having taken no time


class Log(Protocol):
    """The part of the store that a cycle uses."""

    def hold(self) -> None:
        """Hide messages appended from now on from readers."""
        ...

    def dispatch_now(self) -> None:
        """Commit them, dispatch them to queues and index, and call the listeners."""
        ...


class Latency(Protocol):
    """Where a cycle reports how long puts took."""

    def took(self, ms: int, count: int = 1) -> None: ...

    def took_no_time(self, count: int) -> None: ...


class ReadCycle:
    """Owns the order of a read, its time stamp and its latencies."""

    def __init__(self, store: Log, clock: Clock, latency: Latency, *, busy_after: float, promises: Sized = ()) -> None:
        self.now = 0.0
        """The monotonic time of this cycle; all its requests are handled at that time."""
        self.puts = 0
        """Puts of this cycle. Their latency is recorded when it ends or, with `promises`, when each is fulfilled."""
        self.busy_until = 0.0
        """Until this time sends are refused, after a cycle that took very long (page cache busy)."""
        self.busy_after = busy_after
        """Seconds: a longer cycle means that the page cache is busy."""
        self._quick = 0
        self._store = store
        self._clock = clock
        self._latency = latency
        self._promises = promises

    def begin(self, now: float) -> None:
        """Begin a cycle: all its requests count as handled at this time."""
        self.now = now
        self._store.hold()

    def end(self) -> None:
        """Make the appended messages visible and wake the pulls that wait for them; answers are sent after this."""
        puts = self.puts
        self._store.dispatch_now()
        if puts:
            self.puts = 0
            took = self._clock.monotonic() - self.now
            if took > self.busy_after:
                self.busy_until = self.now + 2 * took
            if not self._promises:
                self.record(took, puts)

    def record(self, took: float, count: int = 1) -> None:
        """Record how long puts took until they were stored as promised."""
        if took < _QUICK:
            self._quick += count
        else:
            self._latency.took(int(took * 1000), count)

    def report(self) -> None:
        """Add the quick puts, which are only counted, to the latencies; call it before these are read."""
        self._latency.took_no_time(self._quick)
        self._quick = 0
