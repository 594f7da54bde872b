"""Pending deliveries ordered by time; those of the next minutes are in memory, the rest on disk.

Three tiers: hours and minutes are files of packed entries, the seconds of the next minutes are in memory. Before an
hour begins its file is spread over minutes, and a minute over seconds, in slices between which the event loop runs.
The files are derived from the log: they are never synced, and are rebuilt at each start.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ariane.env import Files

SECOND: Final = 1000
MINUTE: Final = 60_000
HOUR: Final = 3_600_000
HOUR_AHEAD: Final = 600_000  # ms before an hour begins that its file is read
MINUTE_AHEAD: Final = 20_000
SLICE: Final = 2048  # entries moved between two turns of the event loop
BUFFER: Final = 4096  # bytes of a bucket that wait in memory before they are written

_ENTRY: Final = Struct(">qqq")


class Entry(NamedTuple):
    """One pending delivery; the order of the fields is the order of delivery."""

    due_ms: int
    rank: int
    """The offset in the queue of timed messages; -1 - offset for a cancellation, which goes before its target."""
    physical: int
    """Where the message is in the log."""


class Buckets:
    """One tier on disk: entries by `due // width`."""

    def __init__(self, files: Files, folder: Path, width: int) -> None:
        self.width = width
        self.counts: dict[int, int] = {}
        """Entries by bucket."""
        self._files = files
        self._folder = folder
        self._buffers: dict[int, bytearray] = {}
        self._written: dict[int, int] = {}

    def add(self, entry: Entry) -> None:
        """Add an entry; an OSError leaves it unadded."""
        bucket = entry.due_ms // self.width
        buffer = self._buffers.get(bucket)
        if buffer is None:
            buffer = self._buffers[bucket] = bytearray()
        if len(buffer) >= BUFFER:
            self._write(bucket, buffer)
        buffer += _ENTRY.pack(*entry)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    def _write(self, bucket: int, buffer: bytearray) -> None:
        at = self._written.get(bucket, 0)
        file = self._files.open(self._path(bucket))
        try:
            file.pwrite(at, bytes(buffer))
        finally:
            file.close()
        self._written[bucket] = at + len(buffer)
        buffer.clear()

    def take(self, bucket: int) -> Iterator[list[Entry]]:
        """Take all entries of a bucket out, in slices. No entry may be added to it meanwhile."""
        self.counts.pop(bucket, None)
        buffer = self._buffers.pop(bucket, b"")
        size = self._written.pop(bucket, 0)
        if size:
            path = self._path(bucket)
            file = self._files.open(path)
            try:
                for at in range(0, size, SLICE * _ENTRY.size):
                    yield _entries(file.pread(at, min(SLICE * _ENTRY.size, size - at)))
            finally:
                file.close()
            self._files.remove(path)
        if buffer:
            yield _entries(bytes(buffer))

    def _path(self, bucket: int) -> Path:
        return self._folder / f"{self.width // SECOND}-{bucket}"


def _entries(data: bytes) -> list[Entry]:
    return [Entry._make(fields) for fields in _ENTRY.iter_unpack(data)]


class Wheel:
    """Entries sorted by time. Entries due before `start_ms` are returned at once."""

    def __init__(self, files: Files, folder: Path, start_ms: int) -> None:
        files.remove_folder(folder)
        files.make_folder(folder)
        self.count = 0
        self._hours = Buckets(files, folder, HOUR)
        self._minutes = Buckets(files, folder, MINUTE)
        self._seconds: dict[int, list[Entry]] = {}
        self._ready: list[Entry] = []
        # What is due before `_second_end` is ready; before `_minute_end` it is in seconds; before `_hour_end` in
        # minutes. Each is a multiple of the width of its tier.
        self._second_end = self._minute_end = self._hour_end = 0
        self._set_hand(start_ms)
        self._moving: deque[Iterator[None]] = deque()

    def _set_hand(self, time_ms: int) -> None:
        self._second_end = max(self._second_end, time_ms // SECOND * SECOND)
        self._minute_end = max(self._minute_end, time_ms // MINUTE * MINUTE)
        self._hour_end = max(self._hour_end, time_ms // HOUR * HOUR)

    def add(self, entry: Entry) -> None:
        """Add an entry; an OSError leaves it unadded."""
        self._place(entry)
        self.count += 1

    def _place(self, entry: Entry) -> None:
        due = entry.due_ms
        if due < self._second_end:
            heappush(self._ready, entry)
        elif due < self._minute_end:
            self._seconds.setdefault(due // SECOND, []).append(entry)
        elif due < self._hour_end:
            self._minutes.add(entry)
        else:
            self._hours.add(entry)

    def first(self, now_ms: int) -> Entry | None:
        """The entry that is due first, if that is now and `work` has nothing to do before it."""
        if self._ready and self._ready[0].due_ms <= now_ms:
            return self._ready[0]
        return None

    def pop(self) -> None:
        """Remove the entry that `first` returned."""
        heappop(self._ready)
        self.count -= 1

    def work(self, now_ms: int) -> bool:
        """Move one slice of entries to the next tier; False when nothing is due to be moved.

        Call it while `first` returns None. Only what is near is opened, so that a long downtime does not load
        everything that became due in it.
        """
        if self._moving:
            if next(self._moving[0], self) is self:
                self._moving.popleft()
            return True
        hand = min(now_ms, self._second_end)
        if hand + HOUR_AHEAD >= self._hour_end:
            self._hour_end += HOUR
            self._moving.append(self._spread(self._hours, self._hour_end // HOUR - 1))
            return True
        if hand + MINUTE_AHEAD >= self._minute_end and self._minute_end < self._hour_end:
            self._minute_end += MINUTE
            self._moving.append(self._spread(self._minutes, self._minute_end // MINUTE - 1))
            return True
        if self._ready or now_ms < self._second_end:
            return False
        if not self._seconds and self._jump(now_ms):
            return True
        self._second_end += SECOND
        found = self._seconds.pop(self._second_end // SECOND - 1, None)
        if found:
            heapify(found)
            self._ready = found
        return True

    def _spread(self, tier: Buckets, bucket: int) -> Iterator[None]:
        for entries in tier.take(bucket):
            for entry in entries:
                self._place(entry)
            yield

    def _jump(self, now_ms: int) -> bool:
        """Skip the seconds, minutes and hours in which nothing is due; False when there are none to skip."""
        starts = [bucket * tier.width for tier in (self._minutes, self._hours) for bucket in tier.counts]
        target = min([now_ms, *starts]) // MINUTE * MINUTE
        if target < self._minute_end:
            return False
        self._set_hand(target)
        return True

    def ready_until(self, now_ms: int) -> int:
        """Everything due up to this time was returned."""
        nearest = self._ready[0].due_ms if self._ready else self._second_end
        return min(nearest - 1, now_ms)

    def next_ms(self) -> int | None:
        """When `first` or `work` is to be called again; None when nothing is pending."""
        if self._ready:
            return self._ready[0].due_ms
        if self._seconds:
            return min(self._seconds) * SECOND
        times = [min(self._minutes.counts) * MINUTE - MINUTE_AHEAD] if self._minutes.counts else []
        times += [min(self._hours.counts) * HOUR - HOUR_AHEAD] if self._hours.counts else []
        return min(times, default=None)

    def histogram(self) -> dict[int, int]:
        """How many entries are due in each period: its start in ms, seconds and minutes near, hours later."""
        found = {bucket * SECOND: len(entries) for bucket, entries in self._seconds.items()}
        if self._ready:
            start = self._ready[0].due_ms // SECOND * SECOND
            found[start] = found.get(start, 0) + len(self._ready)
        for tier in (self._minutes, self._hours):
            for bucket, count in tier.counts.items():
                found[bucket * tier.width] = found.get(bucket * tier.width, 0) + count
        return dict(sorted(found.items()))
