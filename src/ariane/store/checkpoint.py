"""What is known to be durable: the checkpoint, by store time, and the durable end, by log offset."""

from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from ariane.env import Files

_TIMES = Struct(">qqq")  # log, queues, index
_LENGTH: Final = 4096
_MARGIN_MS: Final = 3000  # messages of one millisecond may be on both sides of a checkpoint


@dataclass(slots=True)
class Checkpoint:
    """Three store times, each at or before what is really durable."""

    log_time: int = 0
    queue_time: int = 0
    index_time: int = 0

    @classmethod
    def load(cls, files: Files, path: Path) -> "Checkpoint":
        """Read the file; when it is missing or short, nothing counts as durable."""
        data = files.read(path) if files.exists(path) else b""
        return cls(*_TIMES.unpack_from(data)) if len(data) >= _TIMES.size else cls()

    def save(self, files: Files, path: Path) -> None:
        data = _TIMES.pack(self.log_time, self.queue_time, self.index_time)
        files.replace(path, data.ljust(_LENGTH, b"\0"))

    def safe_time(self, *, with_index: bool) -> int:
        """Everything stored at this time or before needs no second dispatch."""
        oldest = max(min(self.log_time, self.queue_time) - _MARGIN_MS, 0)
        return min(oldest, self.index_time) if with_index else oldest


class DurableEnd:
    """A log offset up to which the log was synced, for the rare messages that look torn by a power cut.

    Properties may hold a sector of NUL bytes, which is also what an unwritten sector holds. If such a message is the
    last one of the log, recovery needs to know that it was synced. The file is written only for these messages.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path

    def load(self) -> int:
        """The offset; 0 when nothing was noted."""
        data = self._files.read(self._path) if self._files.exists(self._path) else b""
        return int(data) if data.isdigit() else 0

    def save(self, end: int) -> None:
        """Note that the log is durable up to `end`."""
        self._files.replace(self._path, str(end).encode())

    def lower(self, end: int) -> None:
        """The log was cut at `end`: what is written there from now on is not durable."""
        if self.load() > end:
            try:
                self.save(end)
            except OSError:  # a full disk: without the file nothing counts as noted, which is true too
                self._files.remove(self._path)
