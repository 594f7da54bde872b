"""How long puts took: a coarse distribution for people, and fine buckets for percentiles."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

LABELS = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)
LIMITS_MS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
# Width and number of the fine buckets: 20 of a millisecond, 15 of two, and so on up to ten seconds.
STEPS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))
UPPER_MS = tuple(accumulate(width for width, number in STEPS for _ in range(number)))


class PutLatency:
    """Latencies of two minutes: the current one is counted, the last whole one is shown."""

    def __init__(self) -> None:
        self._running = [0] * len(LABELS)
        self._running_fine = [0] * (len(UPPER_MS) + 1)
        self._last: list[int] | None = None
        self._last_fine: list[int] = []
        self.longest_ms = 0

    def took(self, ms: int, count: int = 1) -> None:
        """Count puts by how long they took."""
        self._running[bisect_right(LIMITS_MS, ms)] += count
        self._running_fine[bisect_left(UPPER_MS, ms)] += count
        if ms > self.longest_ms:
            self.longest_ms = ms

    def took_no_time(self, count: int) -> None:
        """Count puts that took less than a millisecond."""
        self._running[0] += count
        self._running_fine[0] += count

    def turn(self) -> None:
        """Start the next minute."""
        self._last, self._running = self._running, [0] * len(LABELS)
        self._last_fine, self._running_fine = self._running_fine, [0] * (len(UPPER_MS) + 1)

    def distribution(self) -> str:
        """`[<=0ms]:5 [0~10ms]:1 …` of the last whole minute; the text `null` before there is one, as Java prints it."""
        if self._last is None:
            return "null"
        return "".join(f"{label}:{count} " for label, count in zip(LABELS, self._last, strict=True))

    def counts(self) -> dict[str, int]:
        """The distribution of the last whole minute by label."""
        return dict(zip(LABELS, self._last or [0] * len(LABELS), strict=True))

    def percentile(self, share: float) -> float:
        """The percentile latency in ms of the last minute's puts, interpolated within a bucket."""
        wanted = int(sum(self._last_fine) * share)
        passed = 0
        for place, count in enumerate(self._last_fine):
            if wanted <= passed + count:
                return _inside(place, wanted - passed, count)
            passed += count
        return 0.0


def _inside(place: int, rank: int, count: int) -> float:
    lower = UPPER_MS[place - 1] if place else 0
    # The last bucket has no upper end: return its lower one.
    width = UPPER_MS[place] - lower if place < len(UPPER_MS) else 0
    return lower + (width * rank / count if count else 0.0)
