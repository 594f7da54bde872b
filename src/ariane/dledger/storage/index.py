"""The index of a ledger: the position of each entry. It can be rebuilt from the entries."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ariane.dledger.storage.entry import INDEX_FILE_UNITS, INDEX_UNIT, MAGIC
from ariane.env import Files, PlainFile
from ariane.store.layout import file_name, log_names

_OPEN: Final = 4  # files kept open
_TAIL: Final = 1 << 16  # bytes of units that are collected before they are written


class LedgerIndex:
    """Units of 32 bytes in sparse files of one size, named by the offset of their first byte.

    `put` collects consecutive units, from which the newest entries are found without reading a file. They are written
    when there are many, and by `flush`: a checkpoint needs them in the files, recovery completes what came after it.
    """

    def __init__(self, folder: Path, files: Files, file_units: int = INDEX_FILE_UNITS) -> None:
        self._folder = folder
        self._files = files
        self._file_size = file_units * INDEX_UNIT.size
        self._open: dict[int, PlainFile] = {}
        self._tail = bytearray()
        self._tail_index = 0  # the index of the first unit in `_tail`
        self._dirty: set[int] = set()
        for name in log_names(files, folder):
            size = files.size(folder / name)
            if size and size % INDEX_UNIT.size == 0:
                self._file_size = size
                break

    def put(self, index: int, position: int, size: int, term: int) -> None:
        """Add the position of an entry."""
        following = self._tail_index + len(self._tail) // INDEX_UNIT.size
        if self._tail and (index != following or len(self._tail) >= _TAIL):
            self.flush()
        if not self._tail:
            self._tail_index = index
        self._tail += INDEX_UNIT.pack(MAGIC, position, size, index, term)

    def flush(self) -> None:
        """Write the collected units."""
        at, data = self._tail_index * INDEX_UNIT.size, bytes(self._tail)
        self._tail.clear()
        while data:
            base = at - at % self._file_size
            room = base + self._file_size - at
            self._file(base).pwrite(at - base, data[:room])
            self._dirty.add(base)
            at += len(data[:room])
            data = data[room:]

    def get(self, index: int) -> tuple[int, int, int] | None:
        """Position, size and term of an entry; None when the index lacks it."""
        return self.units(index, 1)[0] if index >= 0 else None

    def units(self, first: int, count: int) -> list[tuple[int, int, int] | None]:
        """Position, size and term of entries from `first` on: at least one of them, and not across a file."""
        raw: bytes | bytearray
        at = first * INDEX_UNIT.size
        in_tail = (first - self._tail_index) * INDEX_UNIT.size
        if 0 <= in_tail < len(self._tail):
            raw = self._tail[in_tail : in_tail + count * INDEX_UNIT.size]
        else:
            if in_tail < 0 < in_tail + count * INDEX_UNIT.size:
                self.flush()
            base = at - at % self._file_size
            if base not in self._open and not self._files.exists(self._folder / file_name(base)):
                return [None]
            raw = self._file(base).pread(at - base, min(count * INDEX_UNIT.size, base + self._file_size - at))
        found = INDEX_UNIT.iter_unpack(raw[: len(raw) - len(raw) % INDEX_UNIT.size])
        return [
            (position, size, term) if magic == MAGIC and index == first + number and size > 0 else None
            for number, (magic, position, size, index, term) in enumerate(found)
        ] or [None]

    def sync_job(self) -> Callable[[], None]:
        """The job that makes all units so far durable; runs in a thread."""
        self.flush()
        dirty, self._dirty = sorted(self._dirty), set()
        paths = [self._folder / file_name(base) for base in dirty]

        def sync() -> None:
            for path in paths:
                file = self._files.open(path, self._file_size)
                try:
                    file.sync()
                finally:
                    file.close()

        return sync

    def drop_before(self, index: int) -> None:
        """Remove the files whose entries all come before `index`."""
        for name in log_names(self._files, self._folder):
            base = int(name)
            if base + self._file_size <= index * INDEX_UNIT.size:
                opened = self._open.pop(base, None)
                if opened is not None:
                    opened.close()
                self._dirty.discard(base)
                self._files.remove(self._folder / name)

    def close(self) -> None:
        """Write the remaining units and close the files."""
        self.flush()
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, base: int) -> PlainFile:
        file = self._open.pop(base, None)
        if file is None:
            self._files.make_folder(self._folder)
            file = self._files.open(self._folder / file_name(base), self._file_size)
            while len(self._open) >= _OPEN:
                oldest = next(iter(self._open))
                self._open.pop(oldest).close()
        self._open[base] = file
        return file
