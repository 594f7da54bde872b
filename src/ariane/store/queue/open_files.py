"""A bounded set of open files: queues have more files than a process may have descriptors."""

from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ariane.env import Files, PlainFile

_MOST_LENT: Final = 256


class OpenFiles:
    """Opens on demand, closes the least recently used. Each thread has its own set."""

    def __init__(self, files: Files, capacity: int) -> None:
        self._files = files
        self._capacity = capacity
        self._open: OrderedDict[Path, PlainFile] = OrderedDict()
        self._lent: deque[Callable[[], None]] = deque()
        self.doomed: list[Path] = []  # to be removed by the writing thread, which may have them open

    def get(self, path: Path, size: int) -> PlainFile:
        """The file, opened (and created sparse with `size` bytes) if it was not."""
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        if len(self._open) >= self._capacity:
            self._open.popitem(last=False)[1].close()
        opened = self._files.open(path, size)
        self._open[path] = opened
        return opened

    def lend(self, give_back: Callable[[], None]) -> None:
        """Register a part of a file kept in memory; beyond a limit the oldest holder gives it back."""
        self._lent.append(give_back)
        if len(self._lent) > _MOST_LENT:
            self._lent.popleft()()

    def forget(self, path: Path) -> None:
        """Close a file that is about to be removed or changed by other means."""
        found = self._open.pop(path, None)
        if found is not None:
            found.close()

    def forget_under(self, folder: Path) -> None:
        """Close all files of a folder that is about to be removed."""
        for path in [path for path in self._open if folder in path.parents]:
            self.forget(path)

    def doom(self, path: Path) -> None:
        """Close a file and have it removed before the next entries are written."""
        self.forget(path)
        self.doomed.append(path)

    def remove(self, path: Path) -> None:
        """Close and delete a file now."""
        self.forget(path)
        self._files.remove(path)

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def __len__(self) -> int:
        return len(self._open)
