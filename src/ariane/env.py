"""The only door to the outside: clock, files and randomness.

Everything that needs one of them receives it, so that a test can move the clock, fail an fsync or lose unsynced bytes
by passing another object.
"""

import asyncio
import contextlib
import ctypes
import errno
import heapq
import itertools
import mmap
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import ClassVar, Protocol

try:
    import fcntl
except ImportError:  # the client runs on Windows too; only the broker locks files
    fcntl = None  # type: ignore[assignment]


class Clock(Protocol):
    """Time. `now_ms` is the wall clock of RocketMQ's timestamps, `monotonic` is for durations."""

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # asked several times a message, so without a call in between

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to.

    >>> clock = ManualClock(start_ms=1_000)
    >>> clock.advance(2.5)
    >>> clock.now_ms()
    3500
    """

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = start_ms
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self._start_ms + int(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    def advance(self, seconds: float) -> None:
        """Move time on and wake whoever slept until now or before. Their code runs when the loop next does."""
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)

    @property
    def sleepers(self) -> int:
        """How many wait for this clock."""
        return sum(1 for _, _, future in self._sleepers if not future.done())


class MappedFile(Protocol):
    """A file mapped into memory: written by copying, read by slicing, made durable by `sync`."""

    path: Path
    size: int

    def write(self, at: int, data: bytes) -> None: ...

    def read(self, at: int, length: int) -> bytes: ...

    def view(self, at: int, length: int) -> memoryview:
        """A slice without a copy. The mapping stays alive as long as the view does, also when the file is closed."""
        ...

    def sync(self) -> None:
        """Return when all that was written is on the disk (fdatasync)."""
        ...

    def populate(self, at: int, length: int) -> None:
        """Bring these pages into memory ready to be written, so that the first writes do not wait for them."""
        ...

    def close(self) -> bool:
        """Close the file. False when views keep its mapping, and its room on the disk, until the last of them goes."""
        ...


class PlainFile(Protocol):
    """A file read and written at positions."""

    path: Path

    def pread(self, at: int, length: int) -> bytes: ...

    def pwrite(self, at: int, data: bytes) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class DiskUsage:
    """Room on the disk that holds a path, in bytes."""

    total: int
    free: int

    @property
    def used_ratio(self) -> float:
        """The used part, rounded up to a whole per cent as RocketMQ does."""
        return -((self.free - self.total) * 100 // self.total) / 100 if self.total else 0.0


class Files(Protocol):
    """What Ariane does with a file system. Every call may raise OSError; durability is explicit."""

    def map(self, path: Path, size: int, *, allocate: bool) -> MappedFile:
        """Map `path`, creating it with `size` bytes if it is not there.

        With `allocate` the blocks are reserved on the disk, so that a full disk is an error here and not a fatal
        signal at a later write; without, the file is sparse.
        """
        ...

    def open(self, path: Path, size: int = 0) -> PlainFile:
        """Open for reading and writing at positions, creating a sparse file of `size` bytes if it is not there."""
        ...

    def allocate(self, path: Path, at: int, length: int) -> None:
        """Reserve blocks of an existing file."""
        ...

    def clear(self, path: Path, at: int) -> int:
        """Make all bytes from `at` to the end of the file zero, durably. Returns how many were seen that were not."""
        ...

    def read(self, path: Path) -> bytes: ...

    def view(self, path: Path) -> memoryview:
        """A file as it is now, without a copy and without the right to change it."""
        ...

    def replace(self, path: Path, data: bytes) -> None:
        """Write a small file so that a crash leaves the old or the new: tmp, fsync, rename, fsync of the folder."""
        ...

    def exists(self, path: Path) -> bool: ...

    def size(self, path: Path) -> int: ...

    def modified_ms(self, path: Path) -> int: ...

    def list(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; none when it is not there."""
        ...

    def is_folder(self, path: Path) -> bool: ...

    def make_folder(self, path: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def remove_folder(self, path: Path) -> None: ...

    def rename(self, path: Path, target: Path) -> None: ...

    def sync_folder(self, path: Path) -> None: ...

    def sync_all(self, path: Path) -> None:
        """Make all durable that was written to the file system of `path`: cheaper than many files one by one."""
        ...

    def usage(self, path: Path) -> DiskUsage: ...

    def lock(self, path: Path, note: str) -> "FileLock": ...


class FileLock(Protocol):
    """A lock that dies with its process."""

    def release(self) -> None: ...


class LockHeld(OSError):
    """Somebody else holds the lock; `holder` is the note they left."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is locked by {holder or 'another process'}")
        self.holder = holder


_libc = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else ctypes.CDLL("msvcrt")
_MADV_POPULATE_WRITE = 23  # Linux 5.14; not yet in the mmap module
_CLEAR_STEP = 1 << 20
_CLEAR_BY_HAND = 16 << 20  # so much is looked at, and only written where it is not zero
_ZERO_KEEP_SIZE = 0x11  # FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE


class _Mapped:
    """Mapped writes need no system call; `sync` uses fdatasync, which lets other threads run while it waits.

    The mapping has a descriptor of its own: a second one is opened only for the few files that are ever synced.
    """

    def __init__(self, path: Path, size: int, fd: int) -> None:
        self.path = path
        self.size = size
        self._fd = -1
        self._map = mmap.mmap(fd, size)

    def write(self, at: int, data: bytes) -> None:
        self._map[at : at + len(data)] = data

    def read(self, at: int, length: int) -> bytes:
        return self._map[at : at + length]

    def view(self, at: int, length: int) -> memoryview:
        return memoryview(self._map)[at : at + length]

    def sync(self) -> None:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR)
        os.fdatasync(self._fd)

    def populate(self, at: int, length: int) -> None:
        with contextlib.suppress(OSError):  # an older kernel does not know it, and then the first writes are slower
            self._map.madvise(_MADV_POPULATE_WRITE, at, min(length, self.size - at))

    def close(self) -> bool:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        try:
            self._map.close()
        except BufferError:
            return False
        return True


class _Plain:
    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    def pread(self, at: int, length: int) -> bytes:
        return os.pread(self._fd, length, at)

    def pwrite(self, at: int, data: bytes) -> None:
        written = os.pwrite(self._fd, data, at)
        while written < len(data):
            written += os.pwrite(self._fd, data[written:], at + written)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _Lock:
    """A record lock belongs to the process, so a second holder in this same process is kept out by a table."""

    held: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, fd: int, inode: tuple[int, int]) -> None:
        self._fd = fd
        self._inode = inode
        self.held.add(inode)

    def release(self) -> None:
        if self._fd >= 0:
            self.held.discard(self._inode)
            os.close(self._fd)
            self._fd = -1


class SystemFiles:
    """The machine's file system."""

    def map(self, path: Path, size: int, *, allocate: bool) -> MappedFile:
        created = not path.exists()
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._extend(fd, size, allocate)
            return _Mapped(path, size, fd)
        except BaseException:
            if created:  # half a file would be taken for a whole one later
                path.unlink()
            raise
        finally:
            os.close(fd)

    @staticmethod
    def _extend(fd: int, size: int, allocate: bool) -> None:
        if os.fstat(fd).st_size < size:
            os.ftruncate(fd, size)  # the length is right at once; a crash while blocks are reserved leaves it so
        if allocate:
            os.posix_fallocate(fd, 0, size)

    def open(self, path: Path, size: int = 0) -> PlainFile:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if size and os.fstat(fd).st_size < size:
            os.ftruncate(fd, size)
        return _Plain(path, fd)

    def allocate(self, path: Path, at: int, length: int) -> None:
        fd = os.open(path, os.O_RDWR)
        try:
            os.posix_fallocate(fd, at, length)
        finally:
            os.close(fd)

    def clear(self, path: Path, at: int) -> int:
        fd = os.open(path, os.O_RDWR)
        try:
            cleared = sum(_clear_range(fd, start, end) for start, end in _written_ranges(fd, at, at + _CLEAR_BY_HAND))
            if _zero_range(fd, at + _CLEAR_BY_HAND) or cleared:
                os.fdatasync(fd)
            return cleared
        finally:
            os.close(fd)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def view(self, path: Path) -> memoryview:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")

    def replace(self, path: Path, data: bytes) -> None:
        tmp = path.with_name(path.name + ".tmp")
        fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(tmp, path)
        self.sync_folder(path.parent)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def list(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def rename(self, path: Path, target: Path) -> None:
        os.replace(path, target)

    def sync_folder(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY)
        try:
            if _libc.syncfs(fd) != 0:
                raise OSError(ctypes.get_errno(), "syncfs failed", str(path))
        finally:
            os.close(fd)

    def usage(self, path: Path) -> DiskUsage:
        usage = shutil.disk_usage(path)  # `total` counts what is kept for root, which a broker cannot use
        return DiskUsage(usage.used + usage.free, usage.free)

    def lock(self, path: Path, note: str) -> FileLock:
        if path.exists() and _inode(path.stat()) in _Lock.held:  # opening and closing it again would drop our lock
            raise LockHeld(path, path.read_text(errors="replace").strip())
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(fd, 512, 0).decode(errors="replace").strip()
            os.close(fd)
            raise LockHeld(path, holder) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, note.encode(), 0)
        return _Lock(fd, _inode(os.fstat(fd)))


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _zero_range(fd: int, at: int) -> bool:
    """Make the rest of a large file zero without writing it; True when there is such a rest."""
    length = os.fstat(fd).st_size - at
    if length <= 0:
        return False
    if _libc.fallocate64(fd, _ZERO_KEEP_SIZE, ctypes.c_int64(at), ctypes.c_int64(length)) != 0:
        for start, end in _written_ranges(fd, at, at + length):  # this file system cannot
            _clear_range(fd, start, end)
    return True


def _written_ranges(fd: int, at: int, limit: int) -> Iterator[tuple[int, int]]:
    """The parts from `at` to `limit` that are not holes."""
    end = min(os.fstat(fd).st_size, limit)
    while at < end:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            at = min(os.lseek(fd, start, os.SEEK_HOLE), end)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nothing but a hole up to the end
                raise
            return
        if start < at:
            yield start, at


def _clear_range(fd: int, start: int, end: int) -> int:
    cleared = 0
    for at in range(start, end, _CLEAR_STEP):
        data = os.pread(fd, min(_CLEAR_STEP, end - at), at)
        if data.count(0) != len(data):
            cleared += len(data) - data.count(0)
            os.pwrite(fd, bytes(len(data)), at)
    return cleared


@dataclass(frozen=True)
class Env:
    """The world as one object."""

    clock: Clock = field(default_factory=SystemClock)
    files: Files = field(default_factory=SystemFiles)
    random: Random = field(default_factory=Random)
