"""Records what is durable: the checkpoint by store time, the durable end by log offset."""

from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from ariane.env import Files

_TIMES = Struct(">qqq")  # log, queues, index
_LENGTH: Final = 4096
_MARGIN_MS: Final = 3000  # a checkpoint may fall between messages stored in the same millisecond


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
        """Messages stored at or before this time need not be dispatched again."""
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
        """The log was truncated at `end`: bytes appended there later are not durable yet."""
        if self.load() > end:
            try:
                self.save(end)
            except OSError:  # disk full: a missing file means that nothing is noted, which is also correct
                self._files.remove(self._path)
