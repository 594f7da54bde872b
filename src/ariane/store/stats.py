"""Counters of the store, in the words of RocketMQ's runtime info."""

from collections import deque

from ariane.env import Clock

_WINDOWS = (10, 60, 600)  # seconds over which rates are given


class StoreStats:
    """Counts what went in and out. `sample` is called once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.boot_time = clock.now_ms()
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.get_found = 0
        self.get_missed = 0
        self.transferred = 0
        self._samples: deque[tuple[float, int, int, int, int]] = deque(maxlen=_WINDOWS[-1] + 1)
        self.sample()

    def sample(self) -> None:
        now = self._clock.monotonic()
        self._samples.append((now, self.put_count, self.get_found, self.get_missed, self.transferred))

    def info(self) -> dict[str, str]:
        """The store's part of GET_BROKER_RUNTIME_INFO."""
        count = max(self.put_count, 1)
        found, missed = self._rates(2), self._rates(3)
        return {
            "bootTimestamp": str(self.boot_time),
            "runtime": self._runtime(),
            "putMessageEntireTimeMax": "0",
            "putMessageTimesTotal": str(count),
            "putMessageFailedTimes": str(self.put_failed),
            "putMessageSizeTotal": str(self.put_bytes),
            "putMessageDistributeTime": "null",
            "putMessageAverageSize": str(self.put_bytes / count),
            "dispatchMaxBuffer": "0",
            "getMessageEntireTimeMax": "0",
            "putTps": _words(self._rates(1)),
            "getFoundTps": _words(found),
            "getMissTps": _words(missed),
            "getTotalTps": _words([a + b for a, b in zip(found, missed, strict=True)]),
            "getTransferedTps": _words(self._rates(4)),
            "putLatency99": "0.00",
            "putLatency999": "0.00",
        }

    def _rates(self, column: int) -> list[float]:
        return [self._rate(column, window) for window in _WINDOWS]

    def _rate(self, column: int, window: int) -> float:
        newest = self._samples[-1]
        oldest = self._samples[max(len(self._samples) - 1 - window, 0)]
        elapsed = newest[0] - oldest[0]
        return float(newest[column] - oldest[column]) / elapsed if elapsed > 0 else 0.0

    def _runtime(self) -> str:
        seconds = (self._clock.now_ms() - self.boot_time) // 1000
        days, rest = divmod(seconds, 86_400)
        hours, rest = divmod(rest, 3600)
        minutes, left = divmod(rest, 60)
        return f"[ {days} days, {hours} hours, {minutes} minutes, {left} seconds ]"


def _words(rates: list[float]) -> str:
    return " ".join(str(rate) for rate in rates)
