"""One counter and its samples of the last minute, hour and day."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from ariane.protocol.bodies.stats import BrokerStatsItem


@dataclass(frozen=True, slots=True)
class Window:
    """How often a counter is sampled, and how many samples reach how far back."""

    place: int
    period_ms: int
    samples: int


MINUTE = Window(0, 10_000, 7)
HOUR = Window(1, 600_000, 7)
DAY = Window(2, 3_600_000, 25)


class Samples:
    """The times of the last samples of a window, which all counters share."""

    __slots__ = ("times_ms", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self.times_ms: list[int] = []

    def take(self, now_ms: int) -> None:
        """Note the time of a sample."""
        self.times_ms.append(now_ms)
        if len(self.times_ms) > self.window.samples:
            del self.times_ms[0]


class Counter:
    """A sum, its number of additions, and samples of both: pairs in one array for each window.

    There can be one for every queue and group, so the samples are kept small.
    """

    __slots__ = ("_samples", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self._samples = (array("q"), array("q"), array("q"))

    def add(self, value: int, times: int) -> None:
        """Add to the sum."""
        self.value += value
        self.times += times

    def sample(self, window: Window) -> None:
        """Append the current sums to the samples of a window."""
        pairs = self._samples[window.place]
        pairs.append(self.times)
        pairs.append(self.value)
        if len(pairs) > 2 * window.samples:
            del pairs[:2]

    def over(self, samples: Samples) -> BrokerStatsItem:
        """Sum, rate a second and mean addition between the first and the last sample."""
        pairs = self._samples[samples.window.place]
        if not pairs:
            return BrokerStatsItem(sum=0, tps=0.0, avgpt=0.0)
        begin_ms, times_before, value_before = _first(pairs, samples)
        total, additions = pairs[-1] - value_before, pairs[-2] - times_before
        elapsed_ms = samples.times_ms[-1] - begin_ms
        return BrokerStatsItem(
            sum=total,
            tps=total * 1000.0 / elapsed_ms if elapsed_ms > 0 else 0.0,
            avgpt=total / additions if additions > 0 else 0.0,
        )


def _first(pairs: array[int], samples: Samples) -> tuple[int, int, int]:
    """The oldest sample. A young counter starts from zero, one period before its first sample."""
    taken = len(pairs) // 2
    oldest_ms = samples.times_ms[-taken]
    if taken < samples.window.samples:
        return oldest_ms - samples.window.period_ms, 0, 0
    return oldest_ms, pairs[0], pairs[1]
