"""Statistics of a consumer: rates, times, lag, and a suggested number of threads."""

import math
from dataclasses import dataclass, field

from ariane.env import Clock
from ariane.message import MessageQueue

WINDOW = 60.0  # seconds over which rates are taken


@dataclass(frozen=True)
class QueueLag:
    """Cache and lag of one queue."""

    queue: MessageQueue
    cached: int
    """Messages in the local cache."""
    lag: int
    """Messages between the group's offset and the end of the queue, as of the last pull."""


@dataclass(frozen=True)
class TopicStats:
    """Counts and mean times of one topic."""

    received: int
    succeeded: int
    failed: int
    pull_seconds: float
    consume_seconds: float
    received_per_second: float
    succeeded_per_second: float
    failed_per_second: float


@dataclass(frozen=True)
class ConsumerStats:
    """The statistics of a consumer."""

    topics: dict[str, TopicStats]
    queues: list[QueueLag]
    cpu_seconds: float | None
    """T1: CPU time of a listener call; None for coroutines, which share one thread."""
    wait_seconds: float | None
    """T2: the waiting time of a listener call."""
    threads: int
    suggested_threads: int | None
    """C * (T1 + T2) / T1 for C processors; None until a listener function has run."""
    duplicates_risked: int
    """Messages passed to a listener when their queue was released: they are redelivered to the next owner."""
    flow_controls: int

    @property
    def lag(self) -> int:
        """Messages still to be consumed, of all queues held."""
        return sum(queue.lag for queue in self.queues)

    @property
    def backlog(self) -> int:
        """Messages in the local caches."""
        return sum(queue.cached for queue in self.queues)


def suggest_threads(processors: int, cpu_seconds: float, wait_seconds: float) -> int:
    """The number of threads that keep the processors busy: `C * (T1 + T2) / T1`.

    >>> suggest_threads(4, cpu_seconds=0.010, wait_seconds=0.030)
    16
    """
    if cpu_seconds <= 0:
        return processors if wait_seconds <= 0 else 1000
    return max(1, min(1000, math.ceil(processors * (cpu_seconds + wait_seconds) / cpu_seconds - 1e-9)))


@dataclass
class _Topic:
    received: int = 0
    succeeded: int = 0
    failed: int = 0
    pulls: int = 0
    pull_seconds: float = 0.0
    calls: int = 0
    consume_seconds: float = 0.0


@dataclass
class _Mark:
    """Counts at a point in time, for rates."""

    at: float
    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)


class Meter:
    """Counts pulls, messages and listener calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, _Topic] = {}
        self._before = self._latest = _Mark(clock.monotonic())
        self._calls = 0
        self._cpu = 0.0
        self._wall = 0.0
        self.duplicates_risked = 0
        self.flow_controls = 0

    def _topic(self, topic: str) -> _Topic:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic()
        return found

    def pulled(self, topic: str, seconds: float) -> None:
        """Count a pull."""
        of = self._topic(topic)
        of.pulls += 1
        of.pull_seconds += seconds

    def received(self, topic: str, count: int) -> None:
        """Count received messages."""
        self._topic(topic).received += count

    def consumed(self, topic: str, succeeded: int, failed: int, wall: float, cpu: float | None) -> None:
        """Count a listener call."""
        of = self._topic(topic)
        of.succeeded += succeeded
        of.failed += failed
        of.calls += 1
        of.consume_seconds += wall
        if cpu is not None:
            self._calls += 1
            self._cpu += cpu
            self._wall += wall

    def times(self) -> tuple[float, float] | None:
        """Mean CPU time and waiting time of a listener call."""
        if not self._calls:
            return None
        cpu = self._cpu / self._calls
        return cpu, max(0.0, self._wall / self._calls - cpu)

    def topics(self) -> dict[str, TopicStats]:
        """Statistics by topic; rates are over the last one to two minutes."""
        self._mark()
        seconds = max(self._clock.monotonic() - self._before.at, 1e-3)
        return {name: self._stats(name, topic, seconds) for name, topic in self._topics.items()}

    def _stats(self, name: str, topic: _Topic, seconds: float) -> TopicStats:
        received, succeeded, failed = self._before.counts.get(name, (0, 0, 0))
        return TopicStats(
            topic.received,
            topic.succeeded,
            topic.failed,
            topic.pull_seconds / max(1, topic.pulls),
            topic.consume_seconds / max(1, topic.calls),
            (topic.received - received) / seconds,
            (topic.succeeded - succeeded) / seconds,
            (topic.failed - failed) / seconds,
        )

    def _mark(self) -> None:
        now = self._clock.monotonic()
        if now - self._latest.at >= WINDOW:
            counts = {name: (topic.received, topic.succeeded, topic.failed) for name, topic in self._topics.items()}
            self._before, self._latest = self._latest, _Mark(now, counts)
