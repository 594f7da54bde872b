"""Flow control: refuse a send with SYSTEM_BUSY, so that its client tries another broker or waits.

A one-way send is never refused, because no answer would reach its client. TCP backpressure slows it down.
"""

from collections import Counter

from ariane.broker.config import BrokerOptions
from ariane.broker.config.live import LiveOptions
from ariane.broker.read_cycle import ReadCycle
from ariane.broker.send.acknowledge import Acknowledge
from ariane.errors import ResponseError
from ariane.protocol.codes import ResponseCode


class FlowControl:
    """Refuses sends that waited too long, that meet a busy page cache, or when too many wait for their promises."""

    def __init__(self, cycle: ReadCycle, acknowledge: Acknowledge, options: LiveOptions) -> None:
        self._cycle = cycle
        self._acknowledge = acknowledge
        self._patience = 0.0
        self._capacity = 0
        self.refused: Counter[str] = Counter()
        """How many sends were refused, by reason."""
        options.follow(self._take_options)

    def _take_options(self, options: BrokerOptions) -> None:
        self._patience = options.wait_time_mills_in_send_queue / 1000 if options.broker_fast_failure_enable else 1e9
        self._capacity = options.send_thread_pool_queue_capacity

    def check(self, last_read: float) -> None:
        """Raise SYSTEM_BUSY for a send read at the given time when the broker cannot keep up."""
        now = self._cycle.now
        waited = now - last_read
        if waited > self._patience:
            self._refuse(
                "waited too long",
                f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while{self._queue(waited)}",
            )
        if now < self._cycle.busy_until:
            self._refuse(
                "page cache busy",
                f"[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while{self._queue(waited)}",
            )
        if self._acknowledge.waiting >= self._capacity:
            self._refuse("too many wait", "[OVERLOAD]system busy, start flow control for a while")

    def _queue(self, waited: float) -> str:
        return f", period in queue: {int(waited * 1000)}ms, size of queue: {self._acknowledge.waiting}"

    def _refuse(self, reason: str, remark: str) -> None:
        self.refused[reason] += 1
        raise ResponseError(ResponseCode.SYSTEM_BUSY, remark)
