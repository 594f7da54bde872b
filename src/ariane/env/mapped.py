"""A mapped file of the machine."""

import contextlib
import mmap
import os
from pathlib import Path
from typing import Final

_READ: Final = 1 << 18  # larger reads make larger units of the page cache, which cost more at their first write


class Mapped:
    """Mapped writes need no system call; `sync` uses fdatasync, which lets other threads run while it waits.

    The mapping has a descriptor of its own: a second one is opened only for the few files that are ever synced.
    """

    def __init__(self, path: Path, size: int, fd: int) -> None:
        self.path = path
        self.size = size
        self._fd = -1  # of `sync`, which runs in a thread
        self._pwrite_fd = -1
        self._map = mmap.mmap(fd, size)

    def write(self, at: int, data: bytes | memoryview) -> None:
        self._map[at : at + len(data)] = data

    def pwrite(self, at: int, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        try:
            if self._pwrite_fd < 0:
                self._pwrite_fd = os.open(self.path, os.O_RDWR)
            while len(rest):
                count = os.pwrite(self._pwrite_fd, rest, at)
                rest = rest[count:]
                at += count
        except OSError:
            self._map[at : at + len(rest)] = rest

    def read(self, at: int, length: int) -> bytes:
        return self._map[at : at + length]

    def view(self, at: int, length: int) -> memoryview:
        return memoryview(self._map)[at : at + length]

    def sync(self) -> None:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR)
        os.fdatasync(self._fd)

    def populate(self, at: int, length: int) -> None:
        end = min(at + length, self.size)
        scratch = bytearray(_READ)
        with contextlib.suppress(OSError), open(self.path, "rb", buffering=0) as file:  # the file may be removed by now
            file.seek(at)
            while at < end and (count := file.readinto(scratch)):  # lets other threads run, unlike madvise
                at += count

    def close(self) -> bool:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._pwrite_fd >= 0:
            os.close(self._pwrite_fd)
            self._pwrite_fd = -1
        try:
            self._map.close()
        except BufferError:
            return False
        return True
