"""Prometheus metrics of an application's listeners, from what they count themselves."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ariane.app.listen.figures import BUCKETS
from ariane.errors import ArianeError

if TYPE_CHECKING:
    from ariane.app.application import Ariane

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
LABELS: Final = ("application", "listener", "group")
_COUNTERS: Final = {
    "handled": "Messages consumed",
    "failed": "Messages whose handler raised",
    "retried": "Messages that will be delivered again",
    "dead_lettered": "Messages sent to the dead letters at once",
    "invalid": "Messages whose payload was not of the declared type",
}


class ListenerCollector:
    """For a registry of your own: `REGISTRY.register(ListenerCollector(app))`; the lag is in `exposition` only."""

    def __init__(self, app: "Ariane", lags: dict[str, int] | None = None) -> None:
        self._app = app
        self._lags = lags or {}

    def collect(self) -> Iterable[Metric]:
        """All metrics of all listeners that run."""
        counters = {
            name: CounterMetricFamily(f"ariane_listener_{name}", help_text, labels=LABELS)
            for name, help_text in _COUNTERS.items()
        }
        in_flight = GaugeMetricFamily("ariane_listener_in_flight", "Deliveries under way", labels=LABELS)
        lag = GaugeMetricFamily("ariane_listener_lag", "Messages still to be consumed", labels=LABELS)
        duration = HistogramMetricFamily("ariane_listener_duration_seconds", "Time a delivery takes", labels=LABELS)
        for running in self._app.running:
            figures = running.listener.figures
            labels = (self._app.name, running.listener.name, running.settings.group or "")
            for name, family in counters.items():
                family.add_metric(labels, getattr(figures, name))
            in_flight.add_metric(labels, figures.in_flight)
            if running.listener.name in self._lags:
                lag.add_metric(labels, self._lags[running.listener.name])
            duration.add_metric(labels, _cumulative(figures.buckets), figures.seconds)
        return [*counters.values(), in_flight, lag, duration]


def _cumulative(counts: list[int]) -> list[tuple[str, float]]:
    bounds: list[Any] = [*BUCKETS, "+Inf"]
    total, found = 0, []
    for bound, count in zip(bounds, counts, strict=True):
        total += count
        found.append((str(bound), float(total)))
    return found


async def exposition(app: "Ariane") -> bytes:
    """All metrics in Prometheus' text format, lag included."""
    lags = {}
    for running in list(app.running):
        if running.listener.consumer is not None:
            try:
                lags[running.listener.name] = (await running.listener.consumer.stats()).lag
            except ArianeError:
                continue  # it is starting or stopping
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ListenerCollector(app, lags))
    return generate_latest(registry)
