"""When to say "busy" instead of taking a message: clients then try another broker or wait a little.

A one-way message is never refused: nobody would hear of it. Its sender is slowed down by its own socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ariane.errors import ResponseError
from ariane.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_QUICK: Final = 0.001


class FlowControl:
    """Knows how long requests wait to be looked at, and how many wait for flush or replicas."""

    def __init__(self, broker: Broker) -> None:
        self._clock = broker.env.clock
        self._broker = broker
        self.waiting = 0
        """Sends that are stored but not yet kept as promised."""
        self.refused = 0
        self.store_all: Callable[[], None] = broker.store.dispatch_now
        self._slow_until = 0.0
        self._quick = 0
        self._now = -1.0  # not asked yet
        self._puts = 0
        self.take_options()
        broker.on_options.append(lambda _: self.take_options())

    def take_options(self) -> None:
        options = self._broker.options
        self._patience = options.wait_time_mills_in_send_queue / 1000 if options.broker_fast_failure_enable else 1e9
        self._capacity = options.send_thread_pool_queue_capacity
        self._busy_after = options.os_page_cache_busy_time_out_mills / 1000

    def check(self, last_read: float) -> float:
        """The time now; SYSTEM_BUSY when a request read then waited too long or the store cannot keep up.

        All requests of one read come at the same time: the clock is asked once until `read_done`.
        """
        now = self._now
        if now < 0:
            now = self._now = self._clock.monotonic()
        waited = now - last_read
        if waited > self._patience:
            self._refuse(f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while{self._queue(waited)}")
        if now < self._slow_until:
            self._refuse(f"[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while{self._queue(waited)}")
        if self.waiting >= self._capacity:
            self._refuse("[OVERLOAD]system busy, start flow control for a while")
        return now

    def put(self) -> None:
        """A message is on its way into the log, and nothing else was promised for it."""
        self._puts += 1

    def read_done(self) -> None:
        """Have the store take what a read has brought. If that is very slow the page cache is busy, and gets a rest."""
        if self._now < 0:
            self.store_all()
            return
        puts, began = self._puts, self._now
        self._puts, self._now = 0, -1.0
        self.store_all()
        took = self._clock.monotonic() - began
        if took > self._busy_after:
            self._slow_until = began + 2 * took
        if puts:
            self.kept(took, puts)

    def kept(self, took: float, count: int = 1) -> None:
        """Note how long messages took until they were kept as promised."""
        if took < _QUICK:
            self._quick += count
        else:
            self._broker.totals.put_latency.took(int(took * 1000), count)

    def take_quick(self) -> int:
        """How many puts took less than a millisecond since this was last asked."""
        quick, self._quick = self._quick, 0
        return quick

    def _queue(self, waited: float) -> str:
        return f", period in queue: {int(waited * 1000)}ms, size of queue: {self.waiting}"

    def _refuse(self, remark: str) -> None:
        self.refused += 1
        raise ResponseError(ResponseCode.SYSTEM_BUSY, remark)
