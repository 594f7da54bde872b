"""The files of a store folder: their positions in the log, and their bytes."""

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ariane.errors import StoreError
from ariane.spark.file_systems import file_system, is_remote, join, list_folder

_NAME_DIGITS: Final = 20


@dataclass(frozen=True, order=True)
class LogFile:
    """One file of a commitlog or consumequeue: its first byte is byte `base` of the whole."""

    base: int
    size: int
    path: str

    @property
    def end(self) -> int:
        return self.base + self.size


def _size(path: str) -> int:
    if is_remote(path):
        system, inner = file_system(path)
        return int(system.get_file_info(inner).size)
    return Path(path).stat().st_size


def log_files(folder: str) -> list[LogFile]:
    """The mapped files of a folder, by position."""
    names = [name for name in list_folder(folder) if len(name) == _NAME_DIGITS and name.isdigit()]
    return [LogFile(int(name), _size(join(folder, name)), join(folder, name)) for name in names]


def commitlog_folder(store: str) -> str:
    """The folder of the log files: `commitlog` in a store folder, or the folder itself."""
    inner = join(store, "commitlog")
    for folder in (inner, store):
        if log_files(folder):
            return folder
    raise StoreError(f"{store}: no commitlog files there (names of 20 digits, or a folder commitlog with them)")


@dataclass(frozen=True)
class Bytes:
    """Bytes of a file; the first is byte `base` of the whole."""

    view: memoryview
    base: int


class MappedFiles:
    """Local files mapped into memory, remembered by what they are: a worker outlives many queries, and a path may
    be another file by then."""

    def __init__(self, keep: int = 16) -> None:
        self._keep = keep
        self._maps: dict[tuple[int, int, int], mmap.mmap] = {}

    def map(self, path: str) -> mmap.mmap:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            key = (stat.st_dev, stat.st_ino, stat.st_size)
            mapped = self._maps.get(key)
            if mapped is None:
                mapped = self._maps[key] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self._forget()
        return mapped

    def _forget(self) -> None:
        while len(self._maps) > self._keep:  # unmapped when the last array over it is gone
            del self._maps[next(iter(self._maps))]


_MAPPED = MappedFiles()


def open_bytes(file: LogFile, start: int, stop: int) -> Bytes:
    """The bytes of a file. A local file is mapped whole; of a remote one [start, stop) is read."""
    if is_remote(file.path):
        system, inner = file_system(file.path)
        with system.open_input_file(inner) as source:
            part = source.read_at(min(stop, file.size) - start, start)
        return Bytes(memoryview(part), file.base + start)
    if not file.size:
        return Bytes(memoryview(b""), file.base)
    return Bytes(memoryview(_MAPPED.map(file.path)), file.base)
