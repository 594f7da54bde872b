"""Summarises a store without reading all of it."""

from dataclasses import dataclass, field
from pathlib import Path

from ariane.env import Files
from ariane.store.checkpoint import Checkpoint
from ariane.store.index.index_file import HEADER, HEADER_SIZE
from ariane.store.index.repair import index_names
from ariane.store.layout import Layout, log_names
from ariane.store.offline.reading import StoredLog, stored_queues
from ariane.store.queue.entries import BLANK_SIZE, ENTRY, ENTRY_SIZE
from ariane.store.units.reading import UNIT, kind_at, store_time_of


@dataclass
class LogFileFacts:
    """One file of the log."""

    name: str
    size: int
    first_time: int  # 0 when it has no message


@dataclass
class QueueFacts:
    """One queue: [first, end) of its entries whose messages the log still has."""

    topic: str
    queue_id: int
    first: int
    end: int
    files: int
    first_time: int
    last_time: int

    @property
    def count(self) -> int:
        return self.end - self.first


@dataclass
class IndexFacts:
    """One index file."""

    name: str
    entries: int
    begin_time: int
    end_time: int
    begin_offset: int
    end_offset: int


@dataclass
class Inspection:
    """The summary of a store."""

    root: Path
    clean: bool
    checkpoint: Checkpoint
    log: list[LogFileFacts] = field(default_factory=list)
    log_min: int = 0
    log_end: int = 0  # end of the last message
    waiting: int = 0  # messages at the end of the log that are in no queue yet
    queues: list[QueueFacts] = field(default_factory=list)
    index: list[IndexFacts] = field(default_factory=list)
    config: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """Messages in queues, and messages not dispatched yet."""
        return sum(queue.count for queue in self.queues) + self.waiting


def inspect(files: Files, layout: Layout) -> Inspection:
    """Files, ranges, topics, counts and times of a store."""
    stored = StoredLog(files, layout)
    found = Inspection(layout.root, not files.exists(layout.abort), Checkpoint.load(files, layout.checkpoint))
    found.log_min = stored.min_offset
    for segment in stored.segments:
        time = store_time_of(segment.memory) if kind_at(segment.memory, 0) == UNIT else 0
        found.log.append(LogFileFacts(f"{segment.base:020d}", len(segment.memory), time))
    for topic, queue_id, folder in stored_queues(files, layout):
        facts, end = _queue(files, stored, topic, queue_id, folder)
        found.queues.append(facts)
        found.log_end = max(found.log_end, end)
    found.waiting, found.log_end = stored.tail(max(found.log_end, found.log_min))
    found.index = [_index_file(files, layout.index / name) for name in index_names(files, layout.index)]
    found.config = files.list(layout.config)
    return found


def _queue(files: Files, stored: StoredLog, topic: str, queue_id: int, folder: Path) -> tuple[QueueFacts, int]:
    views = [(int(name) // ENTRY_SIZE, files.view(folder / name)) for name in log_names(files, folder)]
    per_file = len(views[0][1]) // ENTRY_SIZE if views else 1
    reader = _Entries(views, per_file)
    end = reader.end()
    first = reader.first_from(stored.min_offset, end)
    last = reader.get(end - 1) if end > first else (0, 0, 0)
    facts = QueueFacts(topic, queue_id, first, end, len(views), 0, 0)
    if end > first:
        facts.first_time = _time(stored, reader.get(first)[0])
        facts.last_time = _time(stored, last[0])
    return facts, last[0] + last[1]


def _time(stored: StoredLog, physical: int) -> int:
    unit = stored.unit_at(physical)
    return 0 if unit is None else unit.store_time


class _Entries:
    """Entries of a queue by number."""

    def __init__(self, views: list[tuple[int, memoryview]], per_file: int) -> None:
        self._views = views
        self._per_file = per_file
        self.low = views[0][0] if views else 0

    def get(self, number: int) -> tuple[int, int, int]:
        base, memory = self._views[(number - self.low) // self._per_file]
        found: tuple[int, int, int] = ENTRY.unpack_from(memory, (number - base) * ENTRY_SIZE)
        return found

    def end(self) -> int:
        """The number after the last entry; empty ones follow the entries."""
        low, high = self.low, self.low + len(self._views) * self._per_file
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.get(middle)[1] > 0 else (low, middle)
        return low

    def first_from(self, physical: int, end: int) -> int:
        low, high = self.low, end
        while low < high:
            middle = (low + high) // 2
            entry = self.get(middle)
            there = entry[1] != BLANK_SIZE and entry[0] >= physical
            low, high = (low, middle) if there else (middle + 1, high)
        return low


def _index_file(files: Files, path: Path) -> IndexFacts:
    header = files.view(path)[:HEADER_SIZE]
    begin_time, end_time, begin, end, _, count = HEADER.unpack(header) if len(header) == HEADER_SIZE else (0,) * 6
    return IndexFacts(path.name, max(count - 1, 0), begin_time, end_time, begin, end)
