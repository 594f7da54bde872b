"""Prune log files that a query does not need."""

from dataclasses import replace

import numpy as np

from ariane.spark.arrow.scan import in_sync
from ariane.spark.arrow.unit_table import UnitTable
from ariane.spark.commitlog.log_files import LogFile, open_bytes
from ariane.spark.commitlog.queue_files import entries_of, queues_of, topics_of

_HEAD = 4096


def prune_by_time(files: list[LogFile], start_ms: int | None, end_ms: int | None) -> list[LogFile]:
    """Files that may hold messages stored in this time. The log is written in the order of store times."""
    if start_ms is None and end_ms is None:
        return files
    times = [_first_time(file) for file in files]
    keep = []
    for index, file in enumerate(files):
        begins, next_begins = times[index], next((t for t in times[index + 1 :] if t is not None), None)
        too_late = end_ms is not None and begins is not None and begins >= end_ms
        too_early = start_ms is not None and next_begins is not None and next_begins < start_ms
        if not too_late and not too_early:
            keep.append(file)
    return keep


def _first_time(file: LogFile) -> int | None:
    """The store time of the first message; None when there is none, or it is damaged."""
    data = open_bytes(file, 0, _HEAD)
    if not in_sync(data.view, data.base, 0):
        return None
    return int(UnitTable(data.view, np.zeros(1, dtype=np.int64)).store_times[0])


def prune_by_topic(store: str, files: list[LogFile], topics: list[str]) -> list[LogFile]:
    """Files with messages of these topics by their consumequeues, and files not dispatched yet."""
    queues = [queue for topic in topics_of(store) for queue in queues_of(store, topic, files[0].base)]
    everything = [queue for queue in queues if queue.stop > queue.start]
    if not everything:
        return files
    ends = [entries_of(replace(queue, start=queue.stop - 1)) for queue in everything]
    covered = max(int(entry["offset"].max(initial=0)) for entry in ends)
    offsets = [entries_of(queue)["offset"] for queue in everything if queue.topic in topics]
    bases = np.array([file.base for file in files], dtype=np.int64)
    wanted = np.concatenate(offsets).astype(np.int64) if offsets else np.empty(0, dtype=np.int64)
    used = set(np.unique(np.searchsorted(bases, wanted, side="right") - 1).tolist())
    return [file for index, file in enumerate(files) if index in used or file.end > covered]
