"""A file system in memory that tracks what is durable: it fails, fills up and loses power on command.

>>> files = MemoryFiles()
>>> files.replace(Path("/a"), b"old")
>>> files.open(Path("/b"), 4).pwrite(0, b"lost")
>>> after = files.after_power_cut()
>>> after.read(Path("/a")), after.exists(Path("/b"))
(b'old', False)
"""

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ariane.env import Clock, DiskUsage, FileLock, LockHeld, MappedFile, PlainFile, SystemClock

PAGE = 4096


class Crash(BaseException):
    """The process ends here. Every later call on the same file system raises it again."""


@dataclass
class Rule:
    """Let calls fail: `operation` on paths that contain `part`, `times` times (-1: until the rule is removed)."""

    operation: str
    error: int
    part: str = ""
    times: int = -1


class Node:
    """A file: what processes see, what the disk has for sure, and which pages have blocks."""

    def __init__(self, size: int, modified: int) -> None:
        self.data = bytearray(size)
        self.durable = bytes(size)
        self.pages: set[int] = set()
        self.modified = modified

    def survivor(self, data: bytes) -> "Node":
        node = Node(0, self.modified)
        node.data = bytearray(data)
        node.durable = bytes(data)
        node.pages = set(self.pages)
        return node


class MemoryFiles:
    """A `Files` without a disk. Names are durable after `sync_folder`, contents after `sync`, as POSIX has it."""

    def __init__(self, clock: Clock | None = None, capacity: int = 1 << 50) -> None:
        self.capacity = capacity
        self.rules: list[Rule] = []
        self.calls: list[tuple[str, Path]] = []
        self.crash_at = -1  # the number of the call that does not happen any more
        self.before_call: Callable[[], None] | None = None  # to look at the file system between two calls
        self.used_ratio: float | None = None  # pretend this instead of counting blocks
        self.boot_id = "boot-0"  # another after a power cut
        self._clock = clock or SystemClock()
        self._nodes: dict[Path, Node] = {}
        self._durable: dict[Path, Node] = {}
        self._folders: set[Path] = {Path("/")}
        self._locks: dict[Path, str] = {}
        self._crashed = False

    # -- faults ---------------------------------------------------------------------------------------------------

    def fail(self, operation: str, error: int = errno.EIO, part: str = "", times: int = -1) -> Rule:
        """Have calls fail from now on."""
        rule = Rule(operation, error, part, times)
        self.rules.append(rule)
        return rule

    def after_kill(self) -> "MemoryFiles":
        """The file system as the next process finds it when this one is killed: all that was written is there."""
        return self._copy(self._nodes, lambda node: bytes(node.data), same_boot=True)

    def after_power_cut(self) -> "MemoryFiles":
        """The file system after the machine lost power: only what was synced is there."""
        return self._copy(self._durable, lambda node: node.durable)

    def after_torn_writes(self, seed: int) -> "MemoryFiles":
        """The same, but of each page that was not synced the old or the new state may have reached the disk."""
        chance = random.Random(seed)
        return self._copy(self._nodes, lambda node: _torn(node, chance))

    def _copy(
        self, names: dict[Path, Node], content: Callable[[Node], bytes], *, same_boot: bool = False
    ) -> "MemoryFiles":
        other = MemoryFiles(self._clock, self.capacity)
        other.boot_id = self.boot_id if same_boot else f"boot-{int(self.boot_id.removeprefix('boot-')) + 1}"
        for path, node in list(names.items()):  # threads of the broker may still write
            other._nodes[path] = other._durable[path] = node.survivor(content(node))
            other._folders.update(path.parents)
            if same_boot:  # the power may still fail: no process has synced it since
                other._nodes[path].durable = node.durable
                if path not in self._durable:
                    del other._durable[path]
        return other

    def called(self, operation: str, path: Path) -> None:
        """Count a call, and fail it if that was asked for."""
        if self._crashed or len(self.calls) == self.crash_at:
            self._crashed = True
            raise Crash(f"before {operation} {path}")
        if self.before_call is not None:
            self.before_call()
        self.calls.append((operation, path))
        for rule in self.rules:
            if rule.operation == operation and rule.part in str(path) and rule.times != 0:
                rule.times -= 1
                raise OSError(rule.error, os.strerror(rule.error), str(path))

    def reserve(self, node: Node, at: int, length: int, path: Path) -> None:
        """Give pages blocks, or fail for want of room."""
        pages = set(range(at // PAGE, (at + length + PAGE - 1) // PAGE)) - node.pages
        if pages and self._used() + len(pages) * PAGE > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        node.pages |= pages

    def touch(self, node: Node) -> None:
        node.modified = self._clock.now_ms()

    def _used(self) -> int:
        return sum(len(node.pages) * PAGE for node in self._nodes.values())

    # -- Files ----------------------------------------------------------------------------------------------------

    def map(self, path: Path, size: int, *, allocate: bool) -> MappedFile:
        self.called("map", path)
        created = path not in self._nodes
        node = self._node(path, size)
        if allocate:
            try:
                self.reserve(node, 0, size, path)
            except OSError:
                if created:
                    del self._nodes[path]
                raise
        return _Mapped(self, path, node)

    def open(self, path: Path, size: int = 0) -> PlainFile:
        self.called("open", path)
        return _Plain(self, path, self._node(path, size))

    def _node(self, path: Path, size: int) -> Node:
        if path.parent not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        node = self._nodes.get(path)
        if node is None:
            node = self._nodes[path] = Node(size, self._clock.now_ms())
        elif len(node.data) < size:
            node.data.extend(bytes(size - len(node.data)))
        return node

    def allocate(self, path: Path, at: int, length: int) -> None:
        self.called("allocate", path)
        self.reserve(self._nodes[path], at, length, path)

    def clear(self, path: Path, at: int, *, sync: bool = True) -> int:
        self.called("clear", path)
        node = self._nodes[path]
        tail = node.data[at:]
        node.data[at:] = bytes(len(tail))
        if sync:
            self.called("sync", path)
            node.durable = bytes(node.data)
        return len(tail) - tail.count(0)

    def read(self, path: Path) -> bytes:
        if path not in self._nodes:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return bytes(self._nodes[path].data)

    def view(self, path: Path) -> memoryview:
        return memoryview(self.read(path))

    def replace(self, path: Path, data: bytes, *, secret: bool = False) -> None:
        tmp = path.with_name(path.name + ".tmp")
        self.called("write", tmp)
        node = self._nodes[tmp] = Node(0, self._clock.now_ms())
        self.reserve(node, 0, len(data), tmp)
        node.data[:] = data
        self.called("sync", tmp)
        node.durable = bytes(node.data)
        self.rename(tmp, path)
        self.sync_folder(path.parent)

    def exists(self, path: Path) -> bool:
        return path in self._nodes or path in self._folders

    def size(self, path: Path) -> int:
        return len(self._nodes[path].data)

    def modified_ms(self, path: Path) -> int:
        return self._nodes[path].modified

    def list(self, folder: Path) -> list[str]:
        inside = [path.name for path in (*self._nodes, *self._folders) if path.parent == folder and path != folder]
        return sorted(inside)

    def is_folder(self, path: Path) -> bool:
        return path in self._folders

    def make_folder(self, path: Path) -> None:
        self._folders.update((path, *path.parents))

    def remove(self, path: Path) -> None:
        self.called("remove", path)
        self._nodes.pop(path, None)

    def remove_folder(self, path: Path) -> None:
        self.called("remove_folder", path)
        for inside in [name for name in self._nodes if path in name.parents]:
            del self._nodes[inside]
        self._folders = {folder for folder in self._folders if folder != path and path not in folder.parents}

    def rename(self, path: Path, target: Path) -> None:
        self.called("rename", path)
        self._nodes[target] = self._nodes.pop(path)

    def link(self, path: Path, target: Path) -> bool:
        self.called("link", path)
        self._nodes[target] = self._nodes[path]
        return True

    def copy(self, path: Path, target: Path, length: int) -> None:
        self.called("copy", path)
        whole = self._nodes[path].data
        node = self._nodes[target] = Node(0, self._clock.now_ms())
        self.reserve(node, 0, length, target)
        node.data[:] = whole[:length].ljust(len(whole), b"\0")

    def sync_folder(self, path: Path) -> None:
        self.called("sync_folder", path)
        for name in [name for name in self._durable if name.parent == path and name not in self._nodes]:
            del self._durable[name]
        for name, node in list(self._nodes.items()):  # a thread of the store may create files meanwhile
            if name.parent == path:
                self._durable[name] = node

    def sync_all(self, path: Path) -> None:
        self.called("sync_all", path)
        for node in list(self._nodes.values()):
            node.durable = bytes(node.data)
        self._durable = dict(self._nodes)

    def usage(self, path: Path) -> DiskUsage:
        if self.used_ratio is not None:
            return DiskUsage(10_000, 10_000 - round(self.used_ratio * 10_000))
        return DiskUsage(self.capacity, max(self.capacity - self._used(), 0))

    def boot(self) -> str:
        return self.boot_id

    def lock(self, path: Path, note: str) -> FileLock:
        if path in self._locks:
            raise LockHeld(path, self._locks[path])
        self._locks[path] = note
        return _Lock(self._locks, path)


class _Mapped:
    def __init__(self, files: MemoryFiles, path: Path, node: Node) -> None:
        self.path = path
        self.size = len(node.data)
        self._files = files
        self._node = node

    def write(self, at: int, data: bytes | memoryview) -> None:
        self._files.called("write", self.path)
        pages = set(range(at // PAGE, (at + len(data) + PAGE - 1) // PAGE))
        if pages - self._node.pages and self._files.capacity < 1 << 50:
            raise AssertionError(f"a mapped write to {self.path} at {at} without blocks: a real process would die here")
        self._node.pages |= pages
        self._node.data[at : at + len(data)] = data
        self._files.touch(self._node)

    def pwrite(self, at: int, data: bytes | memoryview) -> None:
        self.write(at, data)

    def read(self, at: int, length: int) -> bytes:
        return bytes(self._node.data[at : at + length])

    def view(self, at: int, length: int) -> memoryview:
        return memoryview(self._node.data)[at : at + length]

    def sync(self) -> None:
        self._files.called("sync", self.path)
        self._node.durable = bytes(self._node.data)

    def populate(self, at: int, length: int) -> None:
        self._files.called("populate", self.path)

    def close(self) -> bool:
        try:
            self._node.data.append(0)  # refused while views are out
        except BufferError:
            return False
        self._node.data.pop()
        return True


class _Plain:
    def __init__(self, files: MemoryFiles, path: Path, node: Node) -> None:
        self.path = path
        self._files = files
        self._node = node

    def pread(self, at: int, length: int) -> bytes:
        return bytes(self._node.data[at : at + length])

    def pwrite(self, at: int, data: bytes) -> None:
        self._files.called("write", self.path)
        self._files.reserve(self._node, at, len(data), self.path)
        missing = at + len(data) - len(self._node.data)
        if missing > 0:
            self._node.data.extend(bytes(missing))
        self._node.data[at : at + len(data)] = data
        self._files.touch(self._node)

    def sync(self) -> None:
        self._files.called("sync", self.path)
        self._node.durable = bytes(self._node.data)

    def close(self) -> None:
        pass


class _Lock:
    def __init__(self, held: dict[Path, str], path: Path) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.pop(self._path, None)


def _torn(node: Node, chance: random.Random) -> bytes:
    old = node.durable.ljust(len(node.data), b"\0")
    pages = range(0, len(node.data), PAGE)
    return b"".join((bytes(node.data) if chance.random() < 0.5 else old)[at : at + PAGE] for at in pages)
