"""What a listener counts while it works; `metrics` shows it to Prometheus."""

import threading
from bisect import bisect_left
from typing import Final

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class ListenerFigures:
    """Counts of one listener. Plain functions run in threads, so that counts change under a lock."""

    __slots__ = (
        "_lock", "buckets", "dead_lettered", "failed", "handled", "invalid", "retried", "seconds", "under_way",
    )  # fmt: skip

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.handled = 0
        """Messages that were consumed."""
        self.failed = 0
        """Messages whose handler raised."""
        self.retried = 0
        """Messages that will be delivered again."""
        self.dead_lettered = 0
        """Messages sent to the dead letters at once."""
        self.invalid = 0
        """Messages whose payload was not of the declared type."""
        self.under_way: set[object] = set()
        """The contexts of deliveries that have begun; adding and discarding is atomic."""
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)

    @property
    def in_flight(self) -> int:
        """Deliveries under way."""
        return len(self.under_way)

    def end(self, seconds: float, handled: int) -> None:
        """A delivery ended, with so many messages consumed."""
        with self._lock:
            self.handled += handled
            self.seconds += seconds
            self.buckets[bisect_left(BUCKETS, seconds)] += 1

    def count(self, *, failed: int = 0, retried: int = 0, dead_lettered: int = 0, invalid: int = 0) -> None:
        """Messages that were not consumed."""
        with self._lock:
            self.failed += failed
            self.retried += retried
            self.dead_lettered += dead_lettered
            self.invalid += invalid

    @property
    def deliveries(self) -> int:
        """How often the listener was called and has returned."""
        return sum(self.buckets)
