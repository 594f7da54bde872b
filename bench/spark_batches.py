"""What a micro-batch costs beside its rows, and what the driver's memory does over many."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from bench.process import descendants, memory

SAMPLE_EVERY = 5.0
ROWS = 100


@dataclass
class Batches:
    """What was seen."""

    batches: int
    overhead_ms: float
    parts_ms: dict[str, float] = field(default_factory=dict)  # by the names of Spark's progress reports
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


class Numbers(DataSourceStreamReader):
    """As many rows a batch, made from nothing."""

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"at": start["at"] + ROWS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(range(*partition.value), pa.int64())], names=["value"])


class NumbersSource(DataSource):
    """What any stream from Python costs, and nothing else: the floor."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "value bigint"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return Numbers()


def floors(spark: SparkSession) -> dict[str, DataFrame]:
    """Streams to put beside ours: one that Spark's JVM makes by itself, and one from Python."""
    spark.dataSource.register(NumbersSource)
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1)
    return {"Spark's rate-micro-batch": rate.load(), "rows from Python": spark.readStream.format("numbers").load()}


def run_batches(rows: DataFrame, folder: Path, wanted: int, limit: float) -> Batches:
    """Run micro-batches until there were enough of them, or no time is left."""
    query = rows.writeStream.format("noop").option("checkpointLocation", str(folder)).start()
    times: dict[int, dict[str, int]] = {}
    samples: list[dict[str, float]] = []
    end = time.monotonic() + limit
    try:
        while len(times) < wanted and time.monotonic() < end and not query.awaitTermination(SAMPLE_EVERY):
            times |= {p.batchId: p.durationMs for p in query.recentProgress if p.numInputRows}
            samples.append(_sizes(rows.sparkSession))
    finally:
        query.stop()
    parts = _medians(list(times.values()))
    return Batches(max(times, default=-1) + 1, parts.pop("triggerExecution", 0.0), parts, samples)


def _medians(times: list[dict[str, int]]) -> dict[str, float]:
    """Of each part over the last batches, when the JVM has compiled what it runs."""
    last = times[len(times) // 2 :]
    return {name: median(one.get(name, 0) for one in last) for name in (last[-1] if last else ())}


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
