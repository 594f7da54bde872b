"""Reads a store without changing it: units of the log, past damage too, and entries of queues."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ariane.env import Files
from ariane.store.layout import Layout, log_names
from ariane.store.log.log_file import LogSegment
from ariane.store.queue.entries import ENTRY, ENTRY_SIZE
from ariane.store.queue.table import QueueTable
from ariane.store.recovery.recovery import find_unit
from ariane.store.units.reading import END_OF_FILE, Dispatched, kind_at, read_unit

Progress = Callable[[int, int], None]  # done and total, in bytes
PROGRESS_STEP = 1 << 20


def no_progress(done: int, total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Damage:
    """A part of the log that is not a whole message, with messages after it."""

    start: int
    end: int


class StoredLog:
    """The files of a log, read only."""

    def __init__(self, files: Files, layout: Layout) -> None:
        self.layout = layout
        names = log_names(files, layout.commitlog)
        self.segments = [LogSegment(int(name), files.view(layout.commitlog / name)) for name in names]
        self.file_size = max((len(segment.memory) for segment in self.segments), default=0)
        self.table = QueueTable(layout, files, 1, 2)
        self.end = self.min_offset

    @property
    def min_offset(self) -> int:
        return self.segments[0].base if self.segments else 0

    @property
    def size(self) -> int:
        return sum(len(segment.memory) for segment in self.segments)

    def walk(self, progress: Progress = no_progress) -> Iterator[Dispatched | Damage]:
        """All whole units in order, and the damaged parts between. Afterwards `end` is the end of the last unit."""
        total, before, reported = self.size, 0, 0
        for segment in self.segments:
            at = 0
            while at >= 0:
                found = read_unit(segment.memory, at, segment.base + at, True, self.table)
                if found is not None:
                    yield found
                    at += found.size
                    self.end = segment.base + at
                else:
                    damage, at = self._past_damage(segment, at)
                    if damage is not None:
                        yield damage
                if before + at > reported + PROGRESS_STEP:
                    reported = before + at
                    progress(reported, total)
            before += len(segment.memory)
        progress(total, total)

    def _past_damage(self, segment: LogSegment, at: int) -> tuple[Damage | None, int]:
        """The damage at a position without a unit, and where units follow; -1 when none do."""
        if kind_at(segment.memory, at) == END_OF_FILE:
            return None, -1
        following = find_unit(segment, at, self.table)
        if following >= 0:
            return Damage(segment.base + at, segment.base + following), following
        last = segment is self.segments[-1] or not self._has_units_behind(segment)
        return (None if last else Damage(segment.base + at, segment.base + len(segment.memory))), -1

    def _has_units_behind(self, segment: LogSegment) -> bool:
        behind = self.segments[self.segments.index(segment) + 1 :]
        return any(find_unit(other, 0, self.table) >= 0 for other in behind)

    def tail(self, start: int) -> tuple[int, int]:
        """The number of contiguous whole units from `start` on, and the end of the last one."""
        count, end = 0, start
        while (segment := self.segment_at(end)) is not None:
            found = read_unit(segment.memory, end - segment.base, end, True, self.table)
            if found is not None:
                count, end = count + 1, end + found.size
            elif kind_at(segment.memory, end - segment.base) == END_OF_FILE and segment is not self.segments[-1]:
                end = segment.base + self.file_size
            else:
                break
        return count, end

    def unit_at(self, physical: int) -> Dispatched | None:
        """The whole unit at a physical offset; None when there is none."""
        segment = self.segment_at(physical)
        if segment is None:
            return None
        return read_unit(segment.memory, physical - segment.base, physical, False, self.table)

    def segment_at(self, physical: int) -> LogSegment | None:
        if not self.segments or physical < self.min_offset:
            return None
        number = (physical - self.min_offset) // self.file_size
        return self.segments[number] if number < len(self.segments) else None

    def bytes_of(self, message: Dispatched) -> memoryview:
        """The unit of a message that was read here."""
        segment = self.segment_at(message.physical_offset)
        assert segment is not None
        start = message.physical_offset - segment.base
        return segment.memory[start : start + message.size]


def stored_queues(files: Files, layout: Layout) -> Iterator[tuple[str, int, Path]]:
    """Topic, number and folder of each queue."""
    for topic in files.list(layout.consumequeue):
        for number in sorted(filter(str.isdecimal, files.list(layout.consumequeue / topic)), key=int):
            yield topic, int(number), layout.consumequeue / topic / number


def stored_entries(files: Files, folder: Path) -> Iterator[tuple[int, int, int, int]]:
    """Number, commitlog offset, size and tags code of each entry of a queue, up to the first that is empty."""
    for name in log_names(files, folder):
        memory = files.view(folder / name)
        whole = memory[: len(memory) // ENTRY_SIZE * ENTRY_SIZE]
        for number, (physical, size, code) in enumerate(ENTRY.iter_unpack(whole), int(name) // ENTRY_SIZE):
            if size == 0:
                return
            yield number, physical, size, code
