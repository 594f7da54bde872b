"""The commitlog: files of one size, named by the offset of their first byte, that together are one log.

A record never crosses a file: when it does not fit, a filler ends the file and the record starts the next one. At least
the 8 bytes of a filler stay free after every record.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from librt.strings import BytesWriter

from ariane.env import Files
from ariane.store.layout import file_name, log_names
from ariane.store.log.allocate import STRETCH, Allocator
from ariane.store.log.framing import BLANK_LENGTH, Framing, PlainFraming
from ariane.store.log.log import Log
from ariane.store.log.log_file import LogFile, LogSegment
from ariane.store.results import StoreDamaged
from ariane.store.units.reading import END_OF_FILE, NOTHING, UNIT

_HEAD: Final = 8  # bytes of a record that hold its size and magic
_KEPT_TAIL: Final = 1 << 20  # a larger buffer is freed when it is empty
_LARGE: Final = 1 << 12  # bytes of a copied piece from which system calls cost less than the faults of mapped writes
_REWRITE_STEP: Final = 1 << 20
NO_LIMIT: Final = 1 << 62


class CommitLog(Log):
    """A log of mapped files."""

    def __init__(
        self,
        folder: Path,
        file_size: int,
        files: Files,
        allocator: Allocator,
        transient: bool = False,
        framing: Framing | None = None,
    ) -> None:
        self._framing: Framing = PlainFraming() if framing is None else framing
        super().__init__(folder, file_size, self._framing.header, transient=transient)
        self.files: list[LogFile] = []
        self._files = files
        self._allocator = allocator
        self.visible = NO_LIMIT
        """Readers see nothing after this offset, even if more is stored; see `show`."""
        self._mark = 0  # an append beyond this offset must check: the file is full, or the next one must be requested
        self._warm_from = NO_LIMIT  # the offset from which the stretch after the next one is to be brought into memory

    def load(self) -> None:
        self.files = open_files(self._files, self.folder, self.file_size)
        if self.files:
            self._place(self.files[-1].base + self.file_size)

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files = []

    # -- appending ------------------------------------------------------------------------------------------------

    @property
    def largest_unit(self) -> int:
        return self.file_size - BLANK_LENGTH - self.header

    def reserve(self, size: int) -> int:
        header = self.header
        if self.written + header + size + BLANK_LENGTH > self._mark:
            self._look_ahead(header + size)
        at = self.written
        self.written = at + header + size
        if header:
            self._framing.write_header(self.tail, at, size)
            return at + header
        return at

    def make_room(self, size: int, count: int) -> None:
        size += self.header * count
        if self.written + size + BLANK_LENGTH > self._mark:
            self._look_ahead(size)

    def _look_ahead(self, size: int) -> None:
        limit = self.files[-1].base + self.file_size if self.files else 0
        if self.written + size + BLANK_LENGTH <= limit:
            self._allocator.order(self.folder / file_name(limit), self.file_size)
            self._mark = limit
            return
        self._start_file(limit)

    def start_next(self) -> None:
        self._start_file(self.files[-1].base + self.file_size if self.files else 0)

    def _start_file(self, base: int) -> None:
        """Close the last file with a filler and continue in a new one that begins at `base`."""
        new = LogFile(base, self._allocator.take(self.folder / file_name(base), self.file_size))
        room = base - self.written
        if self.files and room:
            self.tail.write(self._framing.filler(room))
            self.commit()
        self.files.append(new)
        self._place(base)

    def commit(self) -> bool:
        size = len(self.tail)
        if not size:
            return False
        last = self.files[-1]
        at = self.stored - last.base
        data = self.tail.getvalue()
        # The head goes last: a kill in the middle of a copy leaves nothing that looks like a record.
        last.file.write(at + _HEAD, memoryview(data)[_HEAD:])
        last.file.write(at, data[:_HEAD])
        self.stored += size
        self.end = min(self.stored, self.visible)
        if self.stored > self._warm_from:
            self._warm_ahead()
        if size > _KEPT_TAIL:
            self.tail = BytesWriter()
        else:
            self.tail.truncate(0)
        return True

    def append_raw(self, at: int, data: bytes | memoryview) -> bool:
        if not self.files:
            self._start_file(at - at % self.file_size)
            self._place(at)
        if at != self.written:
            return False
        rest = memoryview(data)
        while len(rest):
            if at == self.files[-1].base + self.file_size:
                self._start_file(at)
            elif at >= self._mark:
                self._mark = self.files[-1].base + self.file_size
                self._allocator.order(self.folder / file_name(self._mark), self.file_size)
            last = self.files[-1]
            part = rest[: last.base + self.file_size - at]
            # As in `commit`: the head goes last.
            if len(part) >= _LARGE:
                last.file.pwrite(at + _HEAD - last.base, part[_HEAD:])
                last.file.pwrite(at - last.base, part[:_HEAD])
            else:
                last.file.write(at + _HEAD - last.base, part[_HEAD:])
                last.file.write(at - last.base, part[:_HEAD])
            rest = rest[len(part) :]
            at += len(part)
            self.written = self.stored = at
            self.end = min(at, self.visible)
            if at > self._warm_from:
                self._warm_ahead()
        return True

    def _warm_ahead(self) -> None:
        """Keep at least one stretch of the file ahead of the writer in memory."""
        last = self.files[-1]
        at = self._warm_from - last.base + STRETCH
        if at >= self.file_size:
            self._warm_from = NO_LIMIT  # the next file is warm when it is made
            return
        self._allocator.warm_ahead(last.file, at)
        self._warm_from += STRETCH

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

    def raw(self, at: int, most: int) -> memoryview | None:
        low = self.min_offset
        if low < 0 or at < low or at >= self.stored:
            return None
        file = self.files[(at - low) // self.file_size]
        end = min(self.stored, file.base + self.file_size, at + most)
        return file.memory[at - file.base : end - file.base]

    def next_unit(self, at: int) -> int:
        at = max(at, self.min_offset)
        while 0 <= at < self.end:
            file = self.files[(at - self.min_offset) // self.file_size]
            kind = self.kind_at(file, at - file.base)
            if kind == UNIT:
                return at + self.header_of(at)
            if kind != END_OF_FILE:
                return -1
            at = self.roll(at)
        return -1

    def kind_at(self, file: LogSegment, at: int) -> int:
        return self._framing.kind_at(file.memory, at)

    def is_record(self, at: int) -> bool:
        if not self.files or not self.min_offset <= at < self.stored:
            return False
        file = self.files[(at - self.min_offset) // self.file_size]
        return self.kind_at(file, at - file.base) != NOTHING

    def roll(self, at: int) -> int:
        return at + self.file_size - at % self.file_size

    def bases(self) -> list[int]:
        return [file.base for file in self.files]

    def show(self, end: int) -> None:
        """Let readers see what is stored before `end`; what they have seen stays visible."""
        self.visible = max(end, self.end)
        self.end = min(self.stored, self.visible)

    # -- changing the ends ----------------------------------------------------------------------------------------

    def truncate(self, end: int) -> int:
        self.tail.truncate(0)
        self._allocator.forget()  # a file made ahead must not stay after a gap
        while len(self.files) > 1 and self.files[-1].base >= end:
            last = self.files.pop()
            last.close()
            self._files.remove(last.path)
            self._files.sync_folder(self.folder)
        dropped = self._files.clear(self.files[-1].path, end - self.files[-1].base) if self.files else 0
        readable = min(self.end, end)
        self._place(end)
        self.end = readable
        self.flushed = min(self.flushed, end)
        return dropped

    def patch(self, at: int, data: bytes) -> None:
        file = self.files[(at - self.min_offset) // self.file_size]
        file.file.write(at - file.base, data)
        file.file.sync()

    def expendable(self) -> LogFile | None:
        if len(self.files) < 2 or self.files[1].base > self.flushed:
            return None
        return self.files[0]

    def drop_first(self) -> LogFile:
        first = self.files.pop(0)
        self.min_offset = self.files[0].base if self.files else -1
        return first

    def _place(self, end: int) -> None:
        self.stored = self.written = end
        self.end = min(end, self.visible)
        if self.files:
            self.min_offset = self.files[0].base
            self._mark = self.files[-1].base + self.file_size * 3 // 4
            self._warm_from = end
        else:
            self.min_offset = -1
            self._mark = 0
            self._warm_from = NO_LIMIT

    def sync_job(self, start: int, end: int, *, rewrite: bool) -> Callable[[], None]:
        dirty = [file for file in self.files if file.base < end and file.base + self.file_size > start]
        return partial(_sync, dirty, start, end, rewrite)


def open_files(files: Files, folder: Path, file_size: int) -> list[LogFile]:
    """Map the files of a log, oldest first; StoreDamaged when one is missing or too short."""
    names = log_names(files, folder)
    for before, after in pairwise(names):
        if int(after) - int(before) != file_size:
            raise StoreDamaged(
                f"in {folder} there is a gap between {before} and {after}: restore the missing file from a copy, or "
                "move all files before the gap away; nothing was changed"
            )
    for name in names[:-1]:
        if (size := files.size(folder / name)) != file_size:
            raise StoreDamaged(
                f"{folder / name} has {size} bytes, the others have {file_size}: restore it from a copy; nothing was "
                "changed"
            )
    # Only the newest file is written to, so only that one needs its blocks reserved.
    return [LogFile(int(name), files.map(folder / name, file_size, allocate=name == names[-1])) for name in names]


def _sync(files: list[LogFile], start: int, end: int, rewrite: bool) -> None:
    for file in files:
        if rewrite:
            first, last = max(start - file.base, 0), min(end - file.base, file.file.size)
            for at in range(first, last, _REWRITE_STEP):
                file.file.write(at, file.file.read(at, min(_REWRITE_STEP, last - at)))
        file.file.sync()
