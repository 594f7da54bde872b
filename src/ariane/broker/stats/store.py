"""The store's statistics: rates over 10 seconds, a minute and ten minutes, latencies, totals."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ariane.broker.stats.latency import PutLatency
from ariane.broker.stats.texts import double_text, runtime_text

SAMPLES = 10 * 60 + 1
SAMPLE_EVERY_MS = 1000
TURN_EVERY_MS = 60_000
SPANS = (10, 60, 600)


class _Sample(NamedTuple):
    at_ms: int
    put: int
    found: int
    missed: int
    transferred: int


class StoreStats:
    """Counted by the store's callers, sampled by `tick`, shown by GET_BROKER_RUNTIME_INFO."""

    def __init__(self, boot_ms: int) -> None:
        self.boot_ms = boot_ms
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.found = 0
        self.missed = 0
        self.transferred = 0
        self.longest_get_ms = 0
        self.dispatch_max_buffer = 0
        self.put_latency = PutLatency()
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)
        self._sample_due_ms = 0
        self._turned_ms = boot_ms
        self.puts_at_morning = [0, 0]
        self.gets_at_morning = [0, 0]

    def put(self, count: int, size: int, took_ms: int) -> None:
        """Count an append."""
        self.put_count += count
        self.put_bytes += size
        self.put_latency.took(took_ms)

    def put_refused(self, took_ms: int) -> None:
        """Count an append that failed."""
        self.put_failed += 1
        self.put_latency.took(took_ms)

    def got(self, count: int, took_ms: int) -> None:
        """Count a read and the messages that it found."""
        if count:
            self.found += 1
            self.transferred += count
        else:
            self.missed += 1
        if took_ms > self.longest_get_ms:
            self.longest_get_ms = took_ms

    def tick(self, now_ms: int) -> None:
        """Sample the totals, and start the next minute of latencies when it is due; call it every second."""
        if now_ms >= self._sample_due_ms or now_ms < self._sample_due_ms - SAMPLE_EVERY_MS:
            self._sample_due_ms = now_ms + SAMPLE_EVERY_MS
            self._samples.append(_Sample(now_ms, self.put_count, self.found, self.missed, self.transferred))
        if not self._turned_ms <= now_ms <= self._turned_ms + TURN_EVERY_MS:
            self._turned_ms = now_ms
            self.put_latency.turn()

    def morning(self) -> None:
        """Start a new day: the current totals become those of this morning."""
        self.puts_at_morning = [self.puts_at_morning[1], self.put_count]
        self.gets_at_morning = [self.gets_at_morning[1], self.transferred]

    def put_tps(self, seconds: int) -> float | None:
        """Messages a second over the last seconds, or None while the samples do not reach back so far."""
        return self._rate(seconds, lambda sample: sample.put)

    def transferred_tps(self, seconds: int) -> float | None:
        """Messages a second given to consumers."""
        return self._rate(seconds, lambda sample: sample.transferred)

    def runtime_info(self, now_ms: int) -> dict[str, str]:
        """The keys of the runtime info that the store's statistics fill, in Java's text forms."""
        return {
            **self._totals(now_ms),
            "putMessageDistributeTime": self.put_latency.distribution(),
            "putTps": self._rates(lambda sample: sample.put),
            "getFoundTps": self._rates(lambda sample: sample.found),
            "getMissTps": self._rates(lambda sample: sample.missed),
            "getTotalTps": self._total_rates(),
            "getTransferedTps": self._rates(lambda sample: sample.transferred),
            "putLatency99": f"{self.put_latency.percentile(0.99):.2f}",
            "putLatency999": f"{self.put_latency.percentile(0.999):.2f}",
            **self._days(),
        }

    def rates(self) -> Iterator[tuple[str, float]]:
        """Every rate by its name in metrics; 0 while the samples do not reach back so far."""
        for seconds in SPANS:
            found = self._rate(seconds, lambda sample: sample.found) or 0.0
            missed = self._rate(seconds, lambda sample: sample.missed) or 0.0
            yield f"put_tps{seconds}", self.put_tps(seconds) or 0.0
            yield f"getfound_tps{seconds}", found
            yield f"getmiss_tps{seconds}", missed
            yield f"gettotal_tps{seconds}", found + missed
            yield f"gettransfered_tps{seconds}", self.transferred_tps(seconds) or 0.0

    def snapshot(self) -> dict[str, int]:
        """The totals since the start, for metrics."""
        return {
            "put_count": self.put_count,
            "put_bytes": self.put_bytes,
            "put_failed": self.put_failed,
            "get_found": self.found,
            "get_missed": self.missed,
            "get_transferred": self.transferred,
        }

    def _totals(self, now_ms: int) -> dict[str, str]:
        # Apache shows at least one put, because it divides by the number.
        shown = self.put_count or 1
        return {
            "bootTimestamp": str(self.boot_ms),
            "runtime": runtime_text(now_ms - self.boot_ms),
            "putMessageEntireTimeMax": str(self.put_latency.longest_ms),
            "putMessageTimesTotal": str(shown),
            "putMessageFailedTimes": str(self.put_failed),
            "putMessageSizeTotal": str(self.put_bytes),
            "putMessageAverageSize": double_text(self.put_bytes / shown),
            "dispatchMaxBuffer": str(self.dispatch_max_buffer),
            "getMessageEntireTimeMax": str(self.longest_get_ms),
        }

    def _days(self) -> dict[str, str]:
        return {
            "msgPutTotalYesterdayMorning": str(self.puts_at_morning[0]),
            "msgPutTotalTodayMorning": str(self.puts_at_morning[1]),
            "msgPutTotalTodayNow": str(self.put_count),
            "msgGetTotalYesterdayMorning": str(self.gets_at_morning[0]),
            "msgGetTotalTodayMorning": str(self.gets_at_morning[1]),
            "msgGetTotalTodayNow": str(self.transferred),
        }

    def _rate(self, seconds: int, column: Callable[[_Sample], int]) -> float | None:
        if len(self._samples) <= seconds:
            return None
        before, last = self._samples[-(seconds + 1)], self._samples[-1]
        elapsed_ms = last.at_ms - before.at_ms
        return (column(last) - column(before)) / elapsed_ms * 1000 if elapsed_ms > 0 else 0.0

    def _rates(self, column: Callable[[_Sample], int]) -> str:
        """Three rates with blanks between; a rate that is not known yet is empty."""
        rates = (self._rate(seconds, column) for seconds in SPANS)
        return " ".join("" if rate is None else double_text(rate) for rate in rates)

    def _total_rates(self) -> str:
        """Found and missed together; here a rate that is not known yet counts as zero."""
        return " ".join(
            double_text(
                (self._rate(seconds, lambda sample: sample.found) or 0.0)
                + (self._rate(seconds, lambda sample: sample.missed) or 0.0)
            )
            for seconds in SPANS
        )
