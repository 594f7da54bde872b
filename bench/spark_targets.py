"""What the Spark sources promise, judged by the rows of one run."""

from collections.abc import Mapping
from dataclasses import dataclass

TOPIC_TO_NOOP = "topic, 4 columns, to noop"
TOPIC_AS_KAFKA = "topic, Kafka's 7 columns, to noop"
TOPIC_TO_PARQUET = "topic, 17 columns, to Parquet"
LOG_TO_NOOP = "commitlog, 4 columns, to noop"
NOOP_BOUND = "Parquet to noop (the bound)"
PARQUET_BOUND = "Parquet to Parquet (the bound)"
KAFKA = "Kafka's source to noop"
OVERHEAD_MS = 250
GROWTH_MIB = 16.0  # of any process of the driver, from the first quarter of many micro-batches to their end


@dataclass(frozen=True)
class Verdict:
    """One promise: what was wanted, what was found."""

    promise: str
    wanted: float
    found: float | None  # None: not measured in this run
    at_most: bool = False

    @property
    def met(self) -> bool | None:
        if self.found is None:
            return None
        return self.found <= self.wanted if self.at_most else self.found >= self.wanted

    def __str__(self) -> str:
        word = {None: "not measured", True: "met", False: "MISSED"}[self.met]
        found = "-" if self.found is None else f"{self.found:,.2f}"
        return f"{self.promise:58} {'<=' if self.at_most else '>='} {self.wanted:>12,.2f} {found:>14}  {word}"


def verdicts(
    rates: Mapping[str, float], cpu: Mapping[str, float], overhead_ms: float | None, growth_mib: float | None
) -> list[Verdict]:
    """All promises, of rows per second and CPU seconds for a million rows by case."""
    to_parquet = _ratio(rates, TOPIC_TO_PARQUET, PARQUET_BOUND)
    to_kafka = _ratio(cpu, TOPIC_AS_KAFKA, KAFKA)
    return [
        Verdict("topic to noop, rows/s", 400_000, rates.get(TOPIC_TO_NOOP)),
        Verdict("topic to Parquet, of Parquet to Parquet", 0.7, to_parquet),
        Verdict("commitlog to noop with 4 columns, rows/s", 1_500_000, rates.get(LOG_TO_NOOP)),
        Verdict("CPU of a row from a topic, of one from Kafka's source", 1.0, to_kafka, True),
        Verdict("overhead of a micro-batch, ms", OVERHEAD_MS, overhead_ms, True),
        Verdict("growth of the driver over many micro-batches, MiB", GROWTH_MIB, growth_mib, True),
    ]


def _ratio(values: Mapping[str, float], of: str, to: str) -> float | None:
    return values[of] / values[to] if of in values and to in values else None
