"""Creates log files ahead of need, and brings the pages that are written next into memory.

An append waits neither for a gigabyte to be reserved nor for the kernel to find and clear a page.
"""

from functools import partial
from pathlib import Path
from typing import Final

from ariane.env import Files, MappedFile
from ariane.store.worker import Worker

STRETCH: Final = 8 << 20  # bytes of a log brought into memory at a time


class Allocator:
    """Creates one file ahead in a thread. Without a running worker `take` creates it."""

    def __init__(self, files: Files, worker: Worker) -> None:
        self._files = files
        self._worker = worker
        self._ordered: dict[Path, Order] = {}

    def order(self, path: Path, size: int) -> None:
        """Start creating `path` in the background."""
        if self._worker.running and path not in self._ordered:
            order = Order(self, path, size)
            self._ordered[path] = order
            self._worker.submit(order.make)

    def take(self, path: Path, size: int) -> MappedFile:
        """The file, created ahead or now; raises OSError when the disk has no room."""
        order = self._ordered.pop(path, None)
        if order is not None:
            order.wait()
            if order.file is not None:
                return order.file
        return self.make(path, size, warm=False)

    def make(self, path: Path, size: int, *, warm: bool) -> MappedFile:
        """Reserve, map and make durable an empty file; with `warm` its beginning is in memory."""
        self._files.make_folder(path.parent)
        file = self._files.map(path, size, allocate=True)
        self._files.sync_folder(path.parent)
        if warm:
            file.populate(0, 2 * STRETCH)
        return file

    def warm_ahead(self, file: MappedFile, at: int) -> None:
        """Bring the stretch at `at` into memory in the background."""
        if self._worker.running:
            self._worker.submit(partial(file.populate, at, STRETCH))

    def forget(self) -> None:
        """Remove files that were created ahead and not used."""
        for order in self._ordered.values():
            order.wait()
            if order.file is not None:
                order.file.close()
                self._files.remove(order.path)
        self._ordered.clear()


class Order:
    """One file being created."""

    def __init__(self, allocator: Allocator, path: Path, size: int) -> None:
        self.path = path
        self.file: MappedFile | None = None
        self._size = size
        self._allocator = allocator
        self._ready = allocator._worker.signal()

    def make(self) -> None:
        try:
            self.file = self._allocator.make(self.path, self._size, warm=True)
        finally:
            self._ready.set()  # without a file `take` tries again and raises the error

    def wait(self) -> None:
        self._ready.wait()
