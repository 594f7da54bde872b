"""When to say "busy" instead of taking a message: clients then try another broker or wait a little.

A one-way message is never refused: nobody would hear of it. Its sender is slowed down by its own socket.
"""

from __future__ import annotations

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
        self._slow_until = 0.0
        self._quick = 0
        self.take_options()
        broker.on_options.append(lambda _: self.take_options())

    def take_options(self) -> None:
        options = self._broker.options
        self._patience = options.wait_time_mills_in_send_queue / 1000 if options.broker_fast_failure_enable else 1e9
        self._capacity = options.send_thread_pool_queue_capacity
        self._busy_after = options.os_page_cache_busy_time_out_mills / 1000

    def check(self, last_read: float) -> float:
        """The time now; SYSTEM_BUSY when a request read then waited too long or the store cannot keep up."""
        now = self._clock.monotonic()
        waited = now - last_read
        if waited > self._patience:
            self._refuse(f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while{self._queue(waited)}")
        if now < self._slow_until:
            self._refuse(f"[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while{self._queue(waited)}")
        if self.waiting >= self._capacity:
            self._refuse("[OVERLOAD]system busy, start flow control for a while")
        return now

    def put_done(self, began: float, *, kept: bool) -> None:
        """A put that took very long means that the page cache is busy; it gets as long again to recover."""
        took = self._clock.monotonic() - began
        if kept and took < _QUICK:
            self._quick += 1
            return
        if took > self._busy_after:
            self._slow_until = began + 2 * took
        if kept:
            self.kept(took)

    def kept(self, took: float) -> None:
        """Note how long a message took until it was kept as promised."""
        if took < _QUICK:
            self._quick += 1
        else:
            self._broker.totals.put_latency.took(int(took * 1000))

    def take_quick(self) -> int:
        """How many puts took less than a millisecond since this was last asked."""
        quick, self._quick = self._quick, 0
        return quick

    def _queue(self, waited: float) -> str:
        return f", period in queue: {int(waited * 1000)}ms, size of queue: {self.waiting}"

    def _refuse(self, remark: str) -> None:
        self.refused += 1
        raise ResponseError(ResponseCode.SYSTEM_BUSY, remark)
