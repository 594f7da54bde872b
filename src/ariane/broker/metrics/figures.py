"""All figures of a broker that a scrape reads together."""

from collections.abc import Iterator

from ariane.broker.metrics.exporter import ExporterFamilies
from ariane.broker.metrics.native import NativeFamilies
from ariane.broker.metrics.own import OwnFamilies
from ariane.broker.metrics.runtime import RuntimeFamilies
from ariane.broker.metrics.sample import Sample, Sampler
from ariane.ops.metrics import Collected, Metric


class BrokerFigures:
    """Takes one sample for each scrape, and shows it under the names of rocketmq-exporter, RocketMQ 5 and Ariane."""

    def __init__(
        self,
        sampler: Sampler,
        exporter: ExporterFamilies,
        runtime: RuntimeFamilies,
        native: NativeFamilies,
        own: OwnFamilies,
    ) -> None:
        self._sampler = sampler
        self._exporter = exporter
        self._runtime = runtime
        self._native = native
        self._own = own

    @property
    def metrics(self) -> Iterator[Metric]:
        """All families."""
        for part in (self._exporter, self._runtime, self._native, self._own):
            yield from part.metrics

    def collect(self) -> Collected:
        """All families with their rows."""
        sample = Sample()
        for _ in self._sampler.take(sample):
            yield None
        yield from self._exporter.collect(sample)
        yield from self._runtime.collect()
        yield from self._native.collect(sample)
        yield from self._own.collect(sample)
