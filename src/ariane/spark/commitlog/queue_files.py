"""The consumequeues of a store folder: the messages of a queue in queue order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ariane.errors import StoreError
from ariane.protocol.units import MAGIC
from ariane.spark.arrow.scan import Positions
from ariane.spark.arrow.unit_table import UnitTable
from ariane.spark.commitlog.log_files import LogFile, log_files, open_bytes
from ariane.spark.commitlog.log_reader import BATCH_ROWS
from ariane.spark.file_systems import join, list_folder, read_small

ENTRY: Final = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags", ">i8")])  # 20 bytes in a consumequeue file

Entries = npt.NDArray[np.void]


@dataclass(frozen=True)
class QueueRange:
    """Queue offsets [start, stop) of one queue."""

    topic: str
    queue_id: int
    folder: str
    start: int
    stop: int


def topics_of(store: str) -> list[str]:
    """The topics that have consumequeues."""
    return list_folder(join(store, "consumequeue"))


def queues_of(store: str, topic: str, first: int) -> list[QueueRange]:
    """The queues of a topic, each from its first entry to its last.

    Brokers keep entries for a while when the log files that they point to have expired: those before `first`, where the
    log begins, do not count.
    """
    folder = join(store, "consumequeue", topic)
    return [_whole(topic, int(name), join(folder, name), first) for name in list_folder(folder) if name.isdigit()]


def _whole(topic: str, queue_id: int, folder: str, first: int) -> QueueRange:
    files = log_files(folder)
    start = next((found[0] for file in files if len(found := _alive(file, first))), 0)
    stop = next((found[-1] + 1 for file in reversed(files) if len(found := _alive(file, first))), 0)
    return QueueRange(topic, queue_id, folder, int(start), int(stop))


def _alive(file: LogFile, first: int) -> Positions:
    """Queue offsets of the entries of a file that point into the log, which begins at `first`."""
    entries = _entries(file)
    return file.base // ENTRY.itemsize + np.flatnonzero(_is_written(entries) & (entries["offset"] >= first))


def _entries(file: LogFile) -> Entries:
    return np.frombuffer(read_small(file.path), dtype=ENTRY, count=file.size // ENTRY.itemsize)


def _is_written(entries: Entries) -> npt.NDArray[np.bool_]:
    """Mark written entries: new files are zero, and the front of a truncated queue has huge filler offsets."""
    return (entries["size"] > 0) & (entries["offset"] >= 0) & (entries["size"] != np.iinfo(np.int32).max)


def entries_of(part: QueueRange) -> Entries:
    """The written entries of a range, in order."""
    pieces: list[Entries] = []
    for file in log_files(part.folder):
        first = file.base // ENTRY.itemsize
        if first < part.stop and file.end // ENTRY.itemsize > part.start:
            entries = _entries(file)[max(part.start - first, 0) : max(part.stop - first, 0)]
            pieces.append(entries[_is_written(entries)])
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=ENTRY)


def read_queue(part: QueueRange, logs: list[LogFile], *, fail: bool) -> Iterator[UnitTable]:
    """The units of a queue range, in the queue's order."""
    entries = entries_of(part)
    for log in logs:
        here = entries[(entries["offset"] >= log.base) & (entries["offset"] < log.end)]
        for at in range(0, len(here), BATCH_ROWS):
            yield _table(part, log, here[at : at + BATCH_ROWS], fail)
    _require(part, np.isin(_bases(entries, logs), [log.base for log in logs]), fail)


def _bases(entries: Entries, logs: list[LogFile]) -> Positions:
    """The base of the log file of each entry, or -1."""
    bases = np.array([-1] + [log.base for log in logs], dtype=np.int64)
    ends = np.array([-1] + [log.end for log in logs], dtype=np.int64)
    offsets = entries["offset"].astype(np.int64)
    index = np.searchsorted(bases, offsets, side="right") - 1
    return np.where(offsets < ends[index], bases[index], -1)


def _table(part: QueueRange, log: LogFile, entries: Entries, fail: bool) -> UnitTable:
    first, last = entries[0], entries[-1]
    data = open_bytes(log, int(first["offset"]) - log.base, int(last["offset"]) + int(last["size"]) - log.base)
    starts = entries["offset"].astype(np.int64) - data.base
    sizes = entries["size"].astype(np.int64)
    whole = (starts >= 0) & (starts + sizes <= len(data.view))
    table, sizes = UnitTable(data.view, starts[whole]), sizes[whole]
    whole[whole] &= (table.sizes == sizes) & (table.magics == MAGIC)
    table = UnitTable(data.view, starts[whole])
    while (good := table.well_formed()) < len(table):  # skip damaged units one by one
        _require(part, np.array([False]), fail)
        table = UnitTable(data.view, np.delete(table.starts, good))
    _require(part, whole, fail)
    return table


def _require(part: QueueRange, present: npt.NDArray[np.bool_], fail: bool) -> None:
    if fail and not present.all():
        raise StoreError(
            f"topic {part.topic}, queue {part.queue_id}: {int((~present).sum())} messages are not in the log any more; "
            "failOnDataLoss=false leaves them out"
        )
