"""Counts put latencies and logs slow puts."""

from ariane.broker.stats.latency import PutLatency
from ariane.ops.request_log import RequestLog


class TimedPuts:
    """Counts latencies, and passes long ones on to the log of slow requests."""

    def __init__(self, latency: PutLatency, requests: RequestLog) -> None:
        self._latency = latency
        self._requests = requests

    def took(self, ms: int, count: int = 1) -> None:
        """Count puts by how long they took."""
        self._latency.took(ms, count)
        self._requests.took("a send" if count == 1 else f"{count} sends", count, ms)

    def took_no_time(self, count: int) -> None:
        """Count puts that took less than a millisecond."""
        self._latency.took_no_time(count)
