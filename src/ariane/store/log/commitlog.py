"""The commitlog: files of one size, named by the offset of their first byte, that together are one log.

A unit never crosses a file: when it does not fit, a blank record says so and the unit goes to the next file. At least
the 8 bytes of a blank record stay free behind every unit.
"""

from pathlib import Path
from struct import Struct
from typing import Final

from librt.strings import BytesWriter

from ariane.env import Files, MappedFile
from ariane.protocol.units import BLANK, BLANK_MAGIC, MAGIC
from ariane.store.layout import file_name
from ariane.store.log.allocate import Allocator
from ariane.store.log.log import Log

BLANK_LENGTH: Final = 8
_KEPT_TAIL: Final = 1 << 20  # a larger buffer is given back when it is empty
_SIZE_MAGIC: Final = Struct(">iI")


class LogSegment:
    """The bytes of one file of a log; `base` is the offset of the first."""

    __slots__ = ("base", "memory")

    def __init__(self, base: int, memory: memoryview) -> None:
        self.base = base
        self.memory = memory


class LogFile(LogSegment):
    """One file of the log in use."""

    __slots__ = ("file",)

    def __init__(self, base: int, file: MappedFile) -> None:
        super().__init__(base, file.view(0, file.size))
        self.file = file


class CommitLog(Log):
    """A log of mapped files. With a transient pool what was appended is committed from time to time only."""

    def __init__(
        self, folder: Path, file_size: int, files: Files, allocator: Allocator, transient: bool = False
    ) -> None:
        super().__init__()
        self.folder = folder
        self.file_size = file_size
        self.files: list[LogFile] = []
        self.transient = transient
        self._files = files
        self._allocator = allocator
        self._mark = 0  # from here on an append must look: the file ends, or the next one is to be ordered

    # -- appending ------------------------------------------------------------------------------------------------

    def reserve(self, size: int) -> int:
        if self.written + size + BLANK_LENGTH > self._mark:
            self._look_ahead(size)
        at = self.written
        self.written = at + size
        return at

    def _look_ahead(self, size: int) -> None:
        limit = self.files[-1].base + self.file_size if self.files else 0
        if self.written + size + BLANK_LENGTH <= limit:
            self._allocator.order(self.folder / file_name(limit), self.file_size)
            self._mark = limit
            return
        self.start_file(limit)

    def start_next(self) -> None:
        """Go on in a new file, whether or not the last one is full; raises OSError when the disk has no room for it."""
        self.start_file(self.files[-1].base + self.file_size if self.files else 0)

    def start_file(self, base: int) -> None:
        """Close the last file with a blank record and go on in a new one that begins at `base`."""
        new = LogFile(base, self._allocator.take(self.folder / file_name(base), self.file_size))
        room = base - self.written
        if self.files and room:
            self.tail.write(BLANK.pack(room, BLANK_MAGIC))
            self.commit()
        self.files.append(new)
        self._place(base)

    def commit(self) -> bool:
        size = len(self.tail)
        if not size:
            return False
        last = self.files[-1]
        last.file.write(self.end - last.base, self.tail.getvalue())
        self.end += size
        if size > _KEPT_TAIL:
            self.tail = BytesWriter()
        else:
            self.tail.truncate(0)
        return True

    def append_raw(self, at: int, data: bytes) -> bool:
        """Write bytes of a master's log, which holds whole files, blank records and all. False when there is a gap."""
        if not self.files:
            self.start_file(at - at % self.file_size)
            self._place(at)
        if at != self.written:
            return False
        while data:
            if at == self.files[-1].base + self.file_size:
                self.start_file(at)
            room = self.files[-1].base + self.file_size - at
            self.tail.write(data[:room])
            self.commit()
            at = self.written = self.end
            data = data[room:]
        return True

    # -- reading --------------------------------------------------------------------------------------------------

    def span(self, at: int) -> tuple[int, int, memoryview] | None:
        low = self.min_offset
        if low < 0 or at < low or at >= self.end:
            return None
        file = self.files[(at - low) // self.file_size]
        end = file.base + self.file_size
        return file.base, self.end if self.end < end else end, file.memory

    def view(self, at: int, size: int) -> memoryview | None:
        low = self.min_offset
        if low < 0 or at < low or at + size > self.end or size <= 0:
            return None
        file = self.files[(at - low) // self.file_size]
        start = at - file.base
        if start + size > self.file_size:
            return None
        return file.memory[start : start + size]

    def next_unit(self, at: int) -> int:
        at = max(at, self.min_offset)
        while 0 <= at < self.end:
            head = self.view(at, BLANK_LENGTH)
            if head is None:
                return -1
            magic = _SIZE_MAGIC.unpack(head)[1]
            if magic == MAGIC:
                return at
            if magic != BLANK_MAGIC:
                return -1
            at = self.roll(at)
        return -1

    def roll(self, at: int) -> int:
        return at + self.file_size - at % self.file_size

    # -- the files ------------------------------------------------------------------------------------------------

    def adopt(self, files: list[LogFile]) -> None:
        """Take the files found at start; reading is open up to their end until `truncate` says where the log ends."""
        self.files = files
        if files:
            self.min_offset = files[0].base
            self._place(files[-1].base + self.file_size)

    def truncate(self, end: int) -> int:
        """Drop everything from `end` on, so that it never comes back. Returns the bytes that were there."""
        dropped = 0
        while self.files and self.files[-1].base >= end and len(self.files) > 1:
            last = self.files.pop()
            dropped += self._discard(last, 0, remove=True)
        if self.files:
            last = self.files[-1]
            dropped += self._discard(last, end - last.base, remove=False)
        self._place(end)
        self.flushed = end
        return dropped

    def _discard(self, last: LogFile, at: int, *, remove: bool) -> int:
        if not remove:
            return self._files.clear(last.file.path, at)
        path = last.file.path
        last.memory.release()
        last.file.close()
        self._files.remove(path)
        self._files.sync_folder(self.folder)
        return 0

    def patch(self, at: int, data: bytes) -> None:
        """Overwrite a part of a unit durably: recovery corrects what is damaged."""
        file = self.files[(at - self.min_offset) // self.file_size]
        file.file.write(at - file.base, data)
        file.file.sync()

    def drop_first(self) -> LogFile:
        """Take the oldest file out of the log; its messages are gone for readers from now on."""
        first = self.files.pop(0)
        self.min_offset = self.files[0].base if self.files else -1
        return first

    def _place(self, end: int) -> None:
        self.end = self.written = end
        if self.files:
            self.min_offset = self.files[0].base
            self._mark = self.files[-1].base + self.file_size * 3 // 4
        else:
            self.min_offset = -1
            self._mark = 0

    def dirty_files(self, start: int, end: int) -> list[LogFile]:
        """The files that hold bytes of [start, end), oldest first."""
        return [file for file in self.files if file.base < end and file.base + self.file_size > start]

    def close(self) -> None:
        for file in self.files:
            file.memory.release()
            file.file.close()
        self.files = []
