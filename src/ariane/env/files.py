"""The interface to the file system. `SystemFiles` is the real one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

# Permissions of what Ariane creates; the process's umask may take more away.
DATA_MODE: Final = 0o640
SECRET_MODE: Final = 0o600
FOLDER_MODE: Final = 0o750


class MappedFile(Protocol):
    """A file mapped into memory: written by copying, read by slicing, made durable by `sync`."""

    path: Path
    size: int

    def write(self, at: int, data: bytes | memoryview) -> None: ...

    def pwrite(self, at: int, data: bytes | memoryview) -> None:
        """Like `write`, by a system call: cheaper for many new pages, each of which costs a mapped write a fault.

        A failing disk is noticed by the next `sync`, as after `write`.
        """
        ...

    def read(self, at: int, length: int) -> bytes: ...

    def view(self, at: int, length: int) -> memoryview:
        """A slice without a copy. The mapping stays alive as long as the view does, also when the file is closed."""
        ...

    def sync(self) -> None:
        """Make everything written durable (fdatasync)."""
        ...

    def populate(self, at: int, length: int) -> None:
        """Bring these pages into memory, so that the first writes do not wait for them. Runs in a thread.

        They stay clean: nothing is written to the disk for them, and the kernel may take them back.
        """
        ...

    def close(self) -> bool:
        """Close the file. False while views keep its mapping and its disk space."""
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
    """What a process without privileges can use, used or free."""
    free: int
    size: int = 0
    """The whole file system, with what is kept for root; 0 when that is not known."""

    @property
    def used_ratio(self) -> float:
        """The used part, rounded up to a whole per cent as RocketMQ does."""
        return -((self.free - self.total) * 100 // self.total) / 100 if self.total else 0.0


class Files(Protocol):
    """Operations of a file system. Every call may raise OSError; durability is explicit."""

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

    def clear(self, path: Path, at: int, *, sync: bool = True) -> int:
        """Make all bytes from `at` to the end of the file zero. Returns how many were seen that were not.

        Without `sync` the zeros are durable after a later `sync_all`.
        """
        ...

    def read(self, path: Path) -> bytes: ...

    def view(self, path: Path) -> memoryview:
        """A file as it is now, without a copy and without the right to change it."""
        ...

    def replace(self, path: Path, data: bytes, *, secret: bool = False) -> None:
        """Write a small file so that a crash leaves the old or the new: tmp, fsync, rename, fsync of the folder.

        A `secret` file is readable by its owner alone; one that exists keeps its mode except for the rights of others.
        """
        ...

    def exists(self, path: Path) -> bool: ...

    def size(self, path: Path) -> int: ...

    def modified_ms(self, path: Path) -> int: ...

    def list(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; none when it is not there."""
        ...

    def is_folder(self, path: Path) -> bool: ...

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents, unless it exists."""
        ...

    def remove(self, path: Path) -> None: ...

    def remove_folder(self, path: Path) -> None: ...

    def rename(self, path: Path, target: Path) -> None: ...

    def link(self, path: Path, target: Path) -> bool:
        """Give a file a second name, durable after `sync_all`. False when the file system cannot."""
        ...

    def copy(self, path: Path, target: Path, length: int) -> None:
        """Copy the first `length` bytes, durable after `sync_all`; the rest, up to the file's size, is a hole.

        Where the file system can share blocks until one of the two files changes, nothing is read.
        """
        ...

    def sync_folder(self, path: Path) -> None: ...

    def sync_all(self, path: Path) -> None:
        """Make everything written to the file system of `path` durable; cheaper than syncing many files."""
        ...

    def usage(self, path: Path) -> DiskUsage: ...

    def lock(self, path: Path, note: str) -> "FileLock": ...

    def boot(self) -> str:
        """Identifies the run of the machine since its last start; empty when unknown.

        Bytes written by a process that was killed in the same run are all there: they were in the page cache.
        """
        ...


class FileLock(Protocol):
    """A lock that dies with its process."""

    def release(self) -> None: ...


class LockHeld(OSError):
    """The lock is held by another process; `holder` is the note it left."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is locked by {holder or 'another process'}")
        self.holder = holder
