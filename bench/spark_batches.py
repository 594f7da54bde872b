"""What a micro-batch costs beside its rows, and what the driver's memory does over many."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.process import descendants, memory

SAMPLE_EVERY = 5.0
ROWS = 100


@dataclass
class Batches:
    """What was seen."""

    batches: int
    overhead_ms: float
    samples: list[dict[str, float]] = field(default_factory=list)  # MiB: live heap of the JVM, processes of Python

    @property
    def growth(self) -> float | None:
        """How much larger the heap or a process is at the end than after the first quarter, when all is warm."""
        quarter = len(self.samples) // 4
        if quarter < 2:
            return None
        early, late = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        names = set(early[0]) & set(late[-1])
        return max(median(one[name] for one in late) - median(one[name] for one in early) for name in names)


def run_batches(rows: DataFrame, folder: Path, wanted: int, limit: float) -> Batches:
    """Run micro-batches until there were enough of them, or no time is left."""
    query = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "many")).start()
    times: dict[int, float] = {}
    samples: list[dict[str, float]] = []
    end = time.monotonic() + limit
    try:
        while len(times) < wanted and time.monotonic() < end and not query.awaitTermination(SAMPLE_EVERY):
            times |= {p.batchId: p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows}
            samples.append(_sizes(rows.sparkSession))
    finally:
        query.stop()
    return Batches(max(times, default=-1) + 1, median(times.values()) if times else 0.0, samples)


def _sizes(spark: SparkSession) -> dict[str, float]:
    runtime: Any = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    runtime.gc()
    sizes = {"heap": (runtime.totalMemory() - runtime.freeMemory()) / (1 << 20)}
    for pid in descendants(os.getpid()):
        try:
            if pid == os.getpid() or Path(f"/proc/{pid}/comm").read_text().startswith("python"):
                sizes[f"python-{pid}"] = memory(pid).private
        except FileNotFoundError:  # a worker that ended meanwhile
            continue
    return sizes
