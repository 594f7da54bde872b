"""Latency fault tolerance: a broker that was slow, or failed, is avoided for a while."""

from dataclasses import dataclass

from ariane.env import Clock

LATENCY_MS = (50, 100, 550, 1000, 2000, 3000, 15000)
AWAY_MS = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
ISOLATION_MS = 30_000  # the latency assumed for a failed broker


@dataclass(slots=True)
class _Fault:
    latency: float
    back_at: float

    def order(self, now: float) -> tuple[bool, float, float]:
        return now < self.back_at, self.latency, self.back_at


class Faults:
    """Latencies of brokers, and until when each is avoided."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._turn = 0

    def note(self, broker_name: str, latency_ms: float, failed: bool) -> None:
        """Note the latency of an attempt."""
        away = away_ms(ISOLATION_MS if failed else latency_ms)
        self._faults[broker_name] = _Fault(latency_ms, self._clock.monotonic() * 1000 + away)

    def is_available(self, broker_name: str) -> bool:
        """Whether a broker may be used now."""
        fault = self._faults.get(broker_name)
        return fault is None or self._clock.monotonic() * 1000 >= fault.back_at

    def least_bad(self) -> str | None:
        """A broker to try when none is available: one of the better half, in turn."""
        now = self._clock.monotonic() * 1000
        names = sorted(self._faults, key=lambda name: self._faults[name].order(now))
        if not names:
            return None
        self._turn += 1
        return names[self._turn % max(1, len(names) // 2)]

    def forget(self, broker_name: str) -> None:
        """Drop a broker that no route has any more."""
        self._faults.pop(broker_name, None)


def away_ms(latency_ms: float) -> int:
    """Milliseconds for which a broker with this latency is avoided.

    >>> away_ms(49), away_ms(550), away_ms(30_000)
    (0, 30000, 600000)
    """
    for limit, away in zip(reversed(LATENCY_MS), reversed(AWAY_MS), strict=True):
        if latency_ms >= limit:
            return away
    return 0


class Latencies:
    """The latest latency of each broker, to choose the fastest one."""

    def __init__(self) -> None:
        self._latest: dict[str, float] = {}

    def note(self, broker_name: str, latency_ms: float) -> None:
        """Note the latest latency, in whole milliseconds, so that equal brokers take turns."""
        self._latest[broker_name] = int(latency_ms)

    def of(self, broker_name: str) -> float:
        """The latest latency; 0 for a broker that was never tried, so that it is."""
        return self._latest.get(broker_name, 0.0)
