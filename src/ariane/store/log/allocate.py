"""Creates log files ahead of need, so that an append does not wait for a gigabyte to be reserved."""

from pathlib import Path

from ariane.env import Files, MappedFile
from ariane.store.worker import Worker

_WARM_STEP = 1 << 20  # a page fault holds the interpreter lock: many short ones, not one long


class Allocator:
    """Creates one file ahead in a thread. Without a running worker `take` creates it."""

    def __init__(self, files: Files, worker: Worker, warm: bool) -> None:
        self._files = files
        self._worker = worker
        self._warm = warm
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
        """Reserve, map and make durable an empty file."""
        self._files.make_folder(path.parent)
        file = self._files.map(path, size, allocate=True)
        self._files.sync_folder(path.parent)
        if warm and self._warm:
            for at in range(0, size, _WARM_STEP):
                file.populate(at, _WARM_STEP)
        return file

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
