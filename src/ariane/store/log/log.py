"""The one sequence of messages under a store. The plain commitlog is one; a replicated log can take its place."""

from abc import ABC, abstractmethod

from librt.strings import BytesWriter


class Log(ABC):
    """Bytes addressed by physical offset. Units are appended at the end and read anywhere before `end`.

    `end` is where reading stops, `written` what was appended, `flushed` what is durable, `min_offset` where the oldest
    file begins (-1 when there is none). A log decides where a unit may lie: `reserve` says where the next goes,
    `next_unit` skips what is no unit. What is appended waits in `tail` until `commit` lets readers see it.
    """

    def __init__(self) -> None:
        self.min_offset = -1
        self.end = 0
        self.written = 0
        self.flushed = 0
        self.tail = BytesWriter()

    @abstractmethod
    def reserve(self, size: int) -> int:
        """Where a unit (or contiguous units) of `size` bytes lies that the caller now writes to `tail`.

        Raises OSError when there is no room for it.
        """

    def cancel(self, at: int) -> None:
        """Take back what was reserved from `at` on; it must not be committed yet."""
        self.tail.truncate(at - self.end)
        self.written = at

    @abstractmethod
    def commit(self) -> bool:
        """Move what was appended to where readers see it. True when there was something."""

    @abstractmethod
    def span(self, at: int) -> tuple[int, int, memoryview] | None:
        """The readable bytes around `at` that lie together: their first offset, their end, and the bytes."""

    @abstractmethod
    def view(self, at: int, size: int) -> memoryview | None:
        """Readable bytes without a copy; None when they are not (or no longer) there."""

    @abstractmethod
    def next_unit(self, at: int) -> int:
        """The place of the first unit at or behind `at`; -1 when there is none yet."""

    @abstractmethod
    def roll(self, at: int) -> int:
        """The first offset of the file behind the one that holds `at`."""
