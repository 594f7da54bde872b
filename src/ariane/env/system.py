"""The machine's file system."""

import contextlib
import ctypes
import errno
import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from ariane.env.files import (
    DATA_MODE,
    FOLDER_MODE,
    SECRET_MODE,
    DiskUsage,
    FileLock,
    LockHeld,
    MappedFile,
    PlainFile,
)
from ariane.env.mapped import Mapped

try:
    import fcntl
except ImportError:  # the client runs on Windows too; only the broker locks files
    fcntl = None  # type: ignore[assignment]

_libc = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
_fallocate = getattr(_libc, "fallocate64", None) or getattr(_libc, "fallocate", None)
_syncfs = getattr(_libc, "syncfs", None)
_NOT_OTHERS = 0o770
_CLEAR_STEP = 1 << 20
_COPY_STEP = 1 << 20
_FICLONE = 0x40049409  # ioctl of Btrfs, XFS and others
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CLEAR_BY_HAND = 16 << 20  # so much is looked at, and only written where it is not zero
_ZERO_KEEP_SIZE = 0x11  # FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE


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
        fd = os.open(path, os.O_RDWR | os.O_CREAT, DATA_MODE)
        try:
            self._extend(fd, size, allocate)
            return Mapped(path, size, fd)
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
        fd = os.open(path, os.O_RDWR | os.O_CREAT, DATA_MODE)
        if size and os.fstat(fd).st_size < size:
            os.ftruncate(fd, size)
        return _Plain(path, fd)

    def allocate(self, path: Path, at: int, length: int) -> None:
        fd = os.open(path, os.O_RDWR)
        try:
            os.posix_fallocate(fd, at, length)
        finally:
            os.close(fd)

    def clear(self, path: Path, at: int, *, sync: bool = True) -> int:
        fd = os.open(path, os.O_RDWR)
        try:
            cleared = sum(_clear_range(fd, start, end) for start, end in _written_ranges(fd, at, at + _CLEAR_BY_HAND))
            if (_zero_range(fd, at + _CLEAR_BY_HAND) or cleared) and sync:
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

    def replace(self, path: Path, data: bytes, *, secret: bool = False) -> None:
        tmp = path.with_name(path.name + ".tmp")
        with contextlib.suppress(FileNotFoundError):  # left by a crash, with the mode it had then
            tmp.unlink()
        fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, SECRET_MODE if secret else DATA_MODE)
        try:
            if secret and path.exists():
                os.chmod(tmp, path.stat().st_mode & _NOT_OTHERS)
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
        if not path.is_dir():
            if path.parent != path:
                self.make_folder(path.parent)
            path.mkdir(mode=FOLDER_MODE, exist_ok=True)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def rename(self, path: Path, target: Path) -> None:
        os.replace(path, target)

    def link(self, path: Path, target: Path) -> bool:
        try:
            os.link(path, target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
        return True

    def copy(self, path: Path, target: Path, length: int) -> None:
        source = os.open(path, os.O_RDONLY)
        try:
            status = os.fstat(source)
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, status.st_mode & 0o777)
            try:
                if length < status.st_size or not _reflink(source, fd):
                    _copy_bytes(source, fd, min(length, status.st_size))
                    os.ftruncate(fd, status.st_size)
            finally:
                os.close(fd)
        finally:
            os.close(source)

    def sync_folder(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: Path) -> None:
        if _syncfs is None:
            os.sync()
            return
        fd = os.open(path, os.O_RDONLY)
        try:
            if _syncfs(fd) != 0:
                raise OSError(ctypes.get_errno(), "syncfs failed", str(path))
        finally:
            os.close(fd)

    def usage(self, path: Path) -> DiskUsage:
        usage = shutil.disk_usage(path)
        return DiskUsage(usage.used + usage.free, usage.free, usage.total)

    def lock(self, path: Path, note: str) -> FileLock:
        if path.exists() and _inode(path.stat()) in _Lock.held:  # opening and closing it again would drop our lock
            raise LockHeld(path, path.read_text(errors="replace").strip())
        fd = os.open(path, os.O_RDWR | os.O_CREAT, DATA_MODE)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(fd, 512, 0).decode(errors="replace").strip()
            os.close(fd)
            raise LockHeld(path, holder) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, note.encode(), 0)
        return _Lock(fd, _inode(os.fstat(fd)))

    def boot(self) -> str:
        try:
            return _BOOT_ID.read_text().strip()
        except OSError:
            return ""


def _reflink(source: int, target: int) -> bool:
    """Let the target share the source's blocks; False when the file system cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except (OSError, AttributeError):
        return False
    return True


def _copy_bytes(source: int, target: int, length: int) -> None:
    """Copy what is not zero."""
    for at in range(0, length, _COPY_STEP):
        data = os.pread(source, min(_COPY_STEP, length - at), at)
        if data.count(0) == len(data):
            continue
        while data:
            written = os.pwrite(target, data, at)
            data, at = data[written:], at + written


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _zero_range(fd: int, at: int) -> bool:
    """Make the rest of a large file zero without writing it; True when there is such a rest."""
    length = os.fstat(fd).st_size - at
    if length <= 0:
        return False
    if _fallocate is None or _fallocate(fd, _ZERO_KEEP_SIZE, ctypes.c_int64(at), ctypes.c_int64(length)) != 0:
        for start, end in _written_ranges(fd, at, at + length):  # this system cannot
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
