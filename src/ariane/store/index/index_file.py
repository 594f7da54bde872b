"""One index file: a hash table on disk, from the hash of `topic#key` to commitlog offsets.

    header: begin time i64 | end time i64 | begin offset i64 | end offset i64 | used slots i32 | entry count i32
    slots: i32 each, the number of the newest entry of the chain
    entries: hash i32 | commitlog offset i64 | seconds since begin time i32 | number of the next older entry i32

Entries are numbered from 1, and the count in the header is the number of the next one.
"""

import sys
from array import array
from pathlib import Path
from struct import Struct
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from ariane.env import Files, MappedFile
from ariane.protocol.native import i32, i64

HEADER: Final = Struct(">qqqqii")
INDEX_ENTRY: Final = Struct(">iqii")
SLOT: Final = Struct(">i")
HEADER_SIZE: Final = 40
SLOT_SIZE: Final = 4
INDEX_ENTRY_SIZE: Final = 20
_GROW: Final = 1 << 20  # disk blocks are reserved for this many entries at a time
_LARGE: Final = 1 << 10  # bytes of new entries from which a system call costs less than the faults of mapped writes
_MAX_SECONDS: Final = 0x7FFFFFFF
BIG_ENDIAN: Final = sys.byteorder == "big"


class IndexFile:
    """An open index file. New entries stay in memory until `write_header`; slots are written at once."""

    __slots__ = (
        "_allocated",
        "_end",
        "_files",
        "_fresh",
        "_fresh_at",
        "_header_writer",
        "_memory",
        "_slots",
        "begin_offset",
        "begin_time",
        "count",
        "end_offset",
        "end_time",
        "entries",
        "entries_at",
        "file",
        "path",
        "room",
        "slots",
        "slots_used",
    )

    def __init__(self, files: Files, path: Path, slots: int, entries: int) -> None:
        self.path = path
        self.slots = slots
        self.entries = entries
        self.entries_at = HEADER_SIZE + slots * SLOT_SIZE
        self._end = self.entries_at + entries * INDEX_ENTRY_SIZE
        self._files = files
        self._allocated = 0
        self.room = 0  # entries that have blocks on the disk
        self.file: MappedFile = files.map(path, self._end, allocate=False)
        header: tuple[int, int, int, int, int, int] = HEADER.unpack(self.file.read(0, HEADER_SIZE))
        self.begin_time, self.end_time, self.begin_offset, self.end_offset, self.slots_used, self.count = header
        self.count = max(self.count, 1)
        self._memory = self.file.view(0, self._end)
        self._slots = self._memory[HEADER_SIZE : self.entries_at].cast("I")
        self._fresh = BytesWriter()  # entries added since the header was written; they are written together
        self._fresh_at = self.count
        self._header_writer = BytesWriter()

    @property
    def full(self) -> bool:
        return self.count >= self.entries

    def make_room(self, more: int) -> None:
        """Reserve blocks for `more` entries: on a full disk this raises, and a later write cannot fail."""
        need = min(self.entries_at + (self.count + more) * INDEX_ENTRY_SIZE, self._end)
        if need > self._allocated:
            until = min(max(need, self.entries_at) + _GROW, self._end)
            start = self._allocated
            self._files.allocate(self.path, start, until - start)
            self._allocated = until
            self.room = (until - self.entries_at) // INDEX_ENTRY_SIZE

    def put(self, key_hash: int, offset: int, store_time: int) -> None:
        """Add an entry; there must be room for it."""
        number: i64 = self.count
        slot = key_hash % self.slots
        older = _swapped(self._slots[slot])
        if older > number:  # negative values too
            older = 0
        if number <= 1:
            self.begin_offset = offset
            self.begin_time = store_time
        seconds = (store_time - self.begin_time) // 1000
        if seconds < 0 or seconds > _MAX_SECONDS:
            seconds = 0 if seconds < 0 else _MAX_SECONDS
        write_i32_be(self._fresh, i32(key_hash))
        write_i64_be(self._fresh, offset)
        write_i32_be(self._fresh, i32(seconds))
        write_i32_be(self._fresh, i32(older))
        self._slots[slot] = _swapped(number)
        if older == 0:
            self.slots_used += 1
        self.count = number + 1
        self.end_offset = offset
        self.end_time = store_time

    def write_header(self) -> None:
        """Write the new entries, then the header that counts them."""
        if self.count > self._fresh_at:
            at, fresh = self.entries_at + self._fresh_at * INDEX_ENTRY_SIZE, self._fresh.getvalue()
            if len(fresh) >= _LARGE:
                self.file.pwrite(at, fresh)
            else:
                self.file.write(at, fresh)
            self._fresh.truncate(0)
            self._fresh_at = self.count
        self.file.write(0, self._header())

    def _header(self) -> bytes:
        writer = self._header_writer
        writer.truncate(0)
        write_i64_be(writer, self.begin_time)
        write_i64_be(writer, self.end_time)
        write_i64_be(writer, self.begin_offset)
        write_i64_be(writer, self.end_offset)
        write_i32_be(writer, i32(self.slots_used))
        write_i32_be(writer, i32(self.count))
        return writer.getvalue()

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Hash, commitlog offset, seconds and next older entry."""
        at = self.entries_at + number * INDEX_ENTRY_SIZE
        found: tuple[int, int, int, int] = INDEX_ENTRY.unpack(self.file.read(at, INDEX_ENTRY_SIZE))
        return found

    def in_time(self, begin: int, end: int) -> bool:
        """Whether the times of this file overlap [begin, end]."""
        return begin <= self.end_time and end >= self.begin_time

    def select(self, key_hash: int, most: int, begin: int, end: int) -> list[int]:
        """Up to `most` commitlog offsets of a hash between two times, newest first."""
        offsets: list[int] = []
        number: int = SLOT.unpack_from(self._memory, HEADER_SIZE + key_hash % self.slots * SLOT_SIZE)[0]
        while 0 < number < self.count and len(offsets) < most:
            found, offset, seconds, older = self.entry(number)
            time = self.begin_time + seconds * 1000
            if found == key_hash and begin <= time <= end:
                offsets.append(offset)
            if seconds < 0 or time < begin or older >= number:
                break
            number = older
        return offsets

    def cut(self, count: int) -> None:
        """Keep the entries before number `count` and rebuild slots and chains from them."""
        slots = array("i", bytes(self.slots * SLOT_SIZE))
        at = self.entries_at + INDEX_ENTRY_SIZE
        kept = self.file.read(at, (count - 1) * INDEX_ENTRY_SIZE)
        used = 0
        rebuilt = bytearray(kept)
        for number, (key_hash, _, _, older) in enumerate(INDEX_ENTRY.iter_unpack(kept), 1):
            slot = key_hash % self.slots
            if slots[slot] != older:
                SLOT.pack_into(rebuilt, (number - 1) * INDEX_ENTRY_SIZE + 16, slots[slot])
            used += slots[slot] == 0
            slots[slot] = number
        if not BIG_ENDIAN:
            slots.byteswap()
        self.make_room(0)
        if rebuilt != kept:
            self.file.write(at, bytes(rebuilt))
        self.file.write(HEADER_SIZE, slots.tobytes())
        self._end_at(count, used)

    def _end_at(self, count: int, used: int) -> None:
        self.count = self._fresh_at = count
        self.slots_used = used
        if count > 1:
            _, self.begin_offset, _, _ = self.entry(1)
            _, self.end_offset, seconds, _ = self.entry(count - 1)
            self.end_time = min(self.end_time, self.begin_time + seconds * 1000 + 999)
        else:
            self.begin_offset = self.end_offset = self.begin_time = self.end_time = 0
        self.write_header()

    def close(self) -> None:
        self._slots.release()
        self._memory.release()
        self.file.close()


def _swapped(value: i64) -> i64:
    """A 32-bit number in the other byte order: files are big-endian."""
    if BIG_ENDIAN:
        return value
    return (value & 0xFF) << 24 | (value & 0xFF00) << 8 | value >> 8 & 0xFF00 | value >> 24
