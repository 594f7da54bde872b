"""One counter and its samples of the last minute, hour and day."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ariane.protocol.bodies.stats import BrokerStatsItem


@dataclass(frozen=True, slots=True)
class Window:
    """How often a counter is sampled, and how many samples reach how far back."""

    period_ms: int
    samples: int


MINUTE = Window(10_000, 7)
HOUR = Window(600_000, 7)
DAY = Window(3_600_000, 25)
WINDOWS = (MINUTE, HOUR, DAY)


class Counter:
    """A sum, how many additions made it, and samples of both."""

    __slots__ = ("_samples", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self._samples: tuple[deque[tuple[int, int, int]], ...] = tuple(deque(maxlen=w.samples) for w in WINDOWS)

    def add(self, value: int, times: int) -> None:
        """Counts."""
        self.value += value
        self.times += times

    def sample(self, window: Window, now_ms: int) -> None:
        """Remembers the sums of now; before the first ones lies a zero of one period ago."""
        samples = self._samples[WINDOWS.index(window)]
        if not samples:
            samples.append((now_ms - window.period_ms, 0, 0))
        samples.append((now_ms, self.times, self.value))

    def over(self, window: Window) -> BrokerStatsItem:
        """What was counted between the first and the last sample: the sum, the rate a second, the mean addition."""
        samples = self._samples[WINDOWS.index(window)]
        if not samples:
            return BrokerStatsItem(sum=0, tps=0.0, avgpt=0.0)
        (begin, times_before, value_before), (end, times, value) = samples[0], samples[-1]
        total, additions, elapsed = value - value_before, times - times_before, end - begin
        return BrokerStatsItem(
            sum=total,
            tps=total * 1000.0 / elapsed if elapsed > 0 else 0.0,
            avgpt=total / additions if additions > 0 else 0.0,
        )
