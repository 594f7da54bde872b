"""One queue of a topic: 20-byte entries that point into the commitlog.

Entries are written to files in the background; until then, and for a while after, they are served from `tail`. Only the
event loop changes a queue. Files are not mapped: tens of thousands of queues must fit into the limits of a process.
"""

import logging
from bisect import bisect_left
from pathlib import Path
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from ariane.message import SCHEDULE_TOPIC, TIMER_TOPIC
from ariane.protocol.native import i32, i64
from ariane.store.layout import file_name
from ariane.store.queue.entries import BLANK_ENTRY, BLANK_SIZE, ENTRY, ENTRY_SIZE, PLAIN
from ariane.store.queue.open_files import OpenFiles

log = logging.getLogger("ariane.store")

_MAX_GAP: Final = 1 << 20
_MAX_OFFSET: Final = 1 << 48  # more than any queue has; its position in bytes still fits into 64 bits
KEEP: Final = 1024  # written entries kept in memory: consumers near the end need no system call
AHEAD: Final = 1024  # entries read at once for sequential readers


class PutCount:
    """Messages stored in one queue since the counters were last read: how many, by how many requests, how large."""

    __slots__ = ("count", "size", "times")

    def __init__(self) -> None:
        self.count = 0
        self.times = 0
        self.size = 0

    def add(self, count: int, size: int) -> None:
        """Count the messages that one request stored."""
        self.count += count
        self.times += 1
        self.size += size


class ConsumeQueue:
    """Entries `min_offset` to `max_offset`; those before `written` are in files, those from `tail_first` in memory."""

    __slots__ = (
        "_ahead",
        "_ahead_first",
        "_fresh",
        "_tail",
        "blank_from",
        "bytes_topic",
        "dropped",
        "epoch",
        "file_bytes",
        "file_entries",
        "files",
        "folder",
        "is_dirty",
        "is_schedule",
        "key_hash",
        "max_offset",
        "max_physical",
        "min_offset",
        "next_offset",
        "puts",
        "queue_id",
        "read_base",
        "read_path",
        "reader",
        "tail_first",
        "topic",
        "topic_field",
        "written",
    )

    def __init__(self, topic: str, queue_id: int, folder: Path, file_entries: int, reader: OpenFiles) -> None:
        # Fields used for every message come first, to share cache lines.
        bytes_topic = topic.encode()
        self.puts = PutCount()
        self.topic_field = bytes((len(bytes_topic),)) + bytes_topic  # as in a unit
        self.queue_id = queue_id
        self.next_offset = 0  # of the next append; ahead of max_offset by messages not dispatched yet
        self.max_offset = 0
        self.max_physical = -1  # end of the last message
        self.key_hash = 0
        self._fresh: BytesWriter | None = None  # newest entries, moved into `tail` on demand
        self.is_schedule = topic in (SCHEDULE_TOPIC, TIMER_TOPIC)
        self.is_dirty = False
        """Whether the table lists this queue as one with entries to write."""
        self.dropped = False
        """Whether the queue was removed from the table."""
        self.topic = topic
        self.bytes_topic = bytes_topic
        self.folder = folder
        self.file_entries = file_entries
        self.file_bytes = file_entries * ENTRY_SIZE
        self.files: list[int] = []  # first entry of each file, rising
        self.reader = reader
        self.read_base = -1
        self.read_path = folder  # the file that was read last
        self.min_offset = 0
        self._ahead = b""  # entries read ahead
        self._ahead_first = 0
        self._tail = bytearray()
        self.tail_first = 0
        self.written = 0
        self.blank_from = -1  # blank entries from here to `written` are still to be written
        self.epoch = 0  # incremented when all entries are dropped: writes started before are ignored

    def put(self, physical: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Add an entry; False when it was there already."""
        if physical + size <= self.max_physical:
            return False
        if queue_offset != self.max_offset and not self._jump(queue_offset):
            return False
        if PLAIN:
            self._tail += ENTRY.pack(physical, size, tags_code)
        else:
            self._write(physical, size, tags_code)
        self.max_offset = queue_offset + 1
        self.max_physical = physical + size
        return True

    def _write(self, physical: int, size: int, tags_code: int) -> None:
        fresh = self._fresh
        if fresh is None:
            fresh = self._fresh = BytesWriter()
        write_i64_be(fresh, i64(physical))
        write_i32_be(fresh, i32(size))
        write_i64_be(fresh, i64(tags_code))

    @property
    def tail(self) -> bytearray:
        """The entries from `tail_first` on."""
        fresh = self._fresh
        if fresh is not None and len(fresh):
            self._tail += fresh.getvalue()
            fresh.truncate(0)
        return self._tail

    def _jump(self, queue_offset: int) -> bool:
        """Move the end of the queue to `queue_offset`, for a message newer than all entries; False if impossible."""
        if queue_offset == 0:
            self.restart()
        elif queue_offset >= _MAX_OFFSET:
            log.warning("%s/%d: no message has offset %d", self.topic, self.queue_id, queue_offset)
            return False
        elif queue_offset < self.max_offset:
            log.warning("%s/%d has entry %d twice; the first is kept", self.topic, self.queue_id, queue_offset)
            return False
        elif self.max_offset == self.min_offset and not self.files and not self.tail:
            self._begin_at(queue_offset)
        elif queue_offset - self.max_offset > _MAX_GAP:
            log.warning("%s/%d ends at %d: entry %d is not", self.topic, self.queue_id, self.max_offset, queue_offset)
            return False
        else:  # blank entries replace missing ones, so that offsets stay correct
            self.tail.extend(BLANK_ENTRY * (queue_offset - self.max_offset))
        return True

    def _begin_at(self, queue_offset: int) -> None:
        self._ahead = b""
        self.blank_from = queue_offset - queue_offset % self.file_entries
        self.min_offset = self.max_offset = self.tail_first = self.written = queue_offset

    def restart(self) -> None:
        """Start over at offset 0: the topic was deleted and created again, older entries are obsolete."""
        for base in self.files:
            self.reader.doom(self.path(base))
        self.files.clear()
        self.tail.clear()
        self.epoch += 1
        self._ahead = b""
        self.blank_from = -1
        self.min_offset = self.max_offset = self.tail_first = self.written = 0

    def truncate(self, end: int) -> None:
        """Drop the entries from `end` on; those in files are overwritten or cleared by the caller."""
        if end >= self.max_offset:
            return
        self._ahead = b""
        del self.tail[max(end - self.tail_first, 0) * ENTRY_SIZE :]
        self.max_offset = end
        self.written = min(self.written, end)
        self.tail_first = min(self.tail_first, end)
        self.next_offset = min(self.next_offset, end)
        self.blank_from = -1 if self.blank_from >= end else self.blank_from
        last = self.entry(end - 1)
        self.max_physical = -1 if last is None else last[0] + last[1]

    def physical_before(self, end: int) -> int:
        """The log offset of the last message before queue offset `end`; -1 when there is none."""
        last = self.entry(end - 1)
        return -1 if last is None else last[0]

    def path(self, base: int) -> Path:
        """The file that begins with entry `base`."""
        return self.folder / file_name(base * ENTRY_SIZE)

    def entries(self, offset: int, count: int) -> bytes:
        """Up to `count` entries from `offset` on, as stored. Fewer at the end of a file, none when they are gone."""
        start = (offset - self.tail_first) * ENTRY_SIZE
        if start >= 0:
            return bytes(self.tail[start : start + count * ENTRY_SIZE])
        in_file = offset % self.file_entries
        base = offset - in_file
        count = min(count, self.file_entries - in_file, self.written - offset)
        if count <= 0 or not self.has_file(base):
            return b""
        if count == 1:  # a search
            return self._read(base, in_file, 1)
        start = (offset - self._ahead_first) * ENTRY_SIZE
        if start < 0 or start + count * ENTRY_SIZE > len(self._ahead):
            more = min(max(count, AHEAD), self.file_entries - in_file, self.written - offset)
            if not self._ahead:
                self.reader.lend(self._forget_ahead)
            self._ahead = self._read(base, in_file, more)
            self._ahead_first = offset
            start = 0
        return self._ahead[start : start + count * ENTRY_SIZE]

    def _read(self, base: int, in_file: int, count: int) -> bytes:
        if base != self.read_base:  # building a Path is expensive, and readers stay in one file for long
            self.read_base = base
            self.read_path = self.path(base)
        return self.reader.get(self.read_path, self.file_bytes).pread(in_file * ENTRY_SIZE, count * ENTRY_SIZE)

    def _forget_ahead(self) -> None:
        self._ahead = b""

    def has_file(self, base: int) -> bool:
        """Whether the file that begins with entry `base` is there."""
        at = bisect_left(self.files, base)
        return at < len(self.files) and self.files[at] == base

    def entry(self, offset: int) -> tuple[int, int, int] | None:
        """Commitlog offset, size and tags code of one entry; None when there is none."""
        if not self.min_offset <= offset < self.max_offset:
            return None
        raw = self.entries(offset, 1)
        if len(raw) < ENTRY_SIZE:
            return None
        found: tuple[int, int, int] = ENTRY.unpack(raw)
        return None if found[1] == BLANK_SIZE else found

    def stored_entry(self, offset: int) -> tuple[int, int, int] | None:
        """The entry stored in the queue's files at `offset`, even beyond `written`; None when no file covers it."""
        in_file = offset % self.file_entries
        if offset < 0 or not self.has_file(offset - in_file):
            return None
        raw = self._read(offset - in_file, in_file, 1)
        return ENTRY.unpack(raw) if len(raw) == ENTRY_SIZE else None

    def roll(self, offset: int) -> int:
        """The first entry of the file after the one that holds `offset`."""
        return offset + self.file_entries - offset % self.file_entries

    def unwritten(self) -> int:
        return self.max_offset - self.written

    def take_unwritten(self) -> tuple[int, bytes]:
        """The offset of the first entry not in a file, and the bytes of all from there on."""
        first = self.written
        data = bytes(self.tail[(first - self.tail_first) * ENTRY_SIZE :])
        if self.blank_from >= 0:
            data = BLANK_ENTRY * (first - self.blank_from) + data
            first = self.blank_from
        return first, data

    def wrote(self, first: int, count: int, keep: int = KEEP) -> None:
        """Note that `count` entries from `first` on are in files; keep only the last few in memory."""
        self.blank_from = -1
        self.written = first + count
        for base in range(first - first % self.file_entries, self.written, self.file_entries):
            if not self.files or base > self.files[-1]:
                self.files.append(base)
        drop = min(self.written, self.max_offset - keep) - self.tail_first
        if drop > 0:
            del self.tail[: drop * ENTRY_SIZE]
            self.tail_first += drop

    def correct_min(self, log_min: int) -> None:
        """Set `min_offset` to the first entry whose message is still in the log."""
        low = max(self.min_offset, self.files[0] if self.files else self.tail_first)
        self.min_offset = first_at(self, low, self.max_offset, log_min)


def first_at(queue: ConsumeQueue, low: int, high: int, physical: int) -> int:
    """The first entry in [low, high) whose message is at `physical` or later; `high` when there is none."""
    while low < high:
        middle = (low + high) // 2
        raw = queue.entries(middle, 1)
        if len(raw) == ENTRY_SIZE and ENTRY.unpack(raw)[0] >= physical:
            high = middle
        else:
            low = middle + 1
    return low
