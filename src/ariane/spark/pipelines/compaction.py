"""Compact the small files of an archive."""

import re
from typing import Final

from pyspark.sql import SparkSession

from ariane.spark.pipelines.folders import NOTES, Folder

CHECKPOINT: Final = f"{NOTES}/checkpoint"
COMPACTED: Final = "compacted"
PLAN: Final = f"{NOTES}/compaction.json"
MERGED: Final = f"{NOTES}/merged"
_BATCH = re.compile(r"/batch-(\d+)-[^/]*$")


def compact(spark: SparkSession, path: str, *, files: int = 4, target_bytes: int = 256 << 20) -> int:
    """Put the small files of each topic and hour together, where there are at least `files`; how many files went.

    Only batches that are done are touched: an interrupted one is run again by the archive, and replaces its files.
    The archive must not run meanwhile. A crash is made good at the next start of either.
    """
    folder = Folder(spark, path)
    if folder.exists("_delta_log"):
        spark.sql(f"OPTIMIZE delta.`{path}`")
        return 0
    recover(folder)
    gone = 0
    for partition, small in _small_files(folder, target_bytes, last_batch(folder)).items():
        if len(small) >= files:
            _merge(spark, folder, partition, small, target_bytes)
            gone += len(small)
    return gone


def last_batch(folder: Folder) -> int:
    """The number of the last batch that is done, -1 before the first."""
    return max((int(name) for name in folder.names(f"{CHECKPOINT}/commits") if name.isdigit()), default=-1)


def batch_of(name: str) -> int:
    """The batch that a data file is of; -1 for files of many."""
    found = _BATCH.search(name)
    return int(found.group(1)) if found else -1


def _small_files(folder: Folder, target_bytes: int, last: int) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = {}
    for name, size in folder.walk():
        hidden = any(part.startswith(("_", ".")) for part in name.split("/"))
        if not hidden and name.endswith(".parquet") and size < target_bytes // 2 and batch_of(name) <= last:
            found.setdefault(name.rpartition("/")[0], []).append((name, size))
    return found


def _merge(
    spark: SparkSession, folder: Folder, partition: str, small: list[tuple[str, int]], target_bytes: int
) -> None:
    """Write the merged files aside, note the plan, then carry it out: from the note on, a crash changes nothing."""
    pieces = max(1, -(-sum(size for _, size in small) // target_bytes))
    rows = spark.read.parquet(*(folder.at(name) for name, _ in small))
    rows = rows.orderBy("brokerName", "queueId", "queueOffset") if pieces > 1 else rows.coalesce(1)
    folder.remove(MERGED)
    rows.coalesce(pieces).write.parquet(folder.at(MERGED))
    merged = [name for name, _ in folder.walk(MERGED) if name.endswith(".parquet")]
    moves = {name: f"{partition}/{COMPACTED}-{name.rpartition('/')[2]}" for name in merged}
    folder.write_json(PLAN, {"moves": moves, "removes": [name for name, _ in small]})
    recover(folder)


def recover(folder: Folder) -> None:
    """Carry out a compaction that was planned, whatever part of it was done."""
    plan = folder.read_json(PLAN)
    if plan is None:
        return
    for name in plan["removes"]:
        folder.remove(name)
    for name, target in plan["moves"].items():
        if folder.exists(name):
            folder.move(name, target)
    folder.remove(PLAN)
    folder.remove(MERGED)
