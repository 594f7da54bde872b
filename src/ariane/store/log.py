"""The one sequence of messages under a store. The plain commitlog is one; a replicated log can take its place."""

from typing import Protocol


class Log(Protocol):
    """Bytes addressed by physical offset. Units are appended at the end and read anywhere before `end`.

    `end` is where reading stops, `flushed` what is durable, `min_offset` where the oldest file begins (-1 when there is
    none). A log decides where a unit may lie: `reserve` says where the next goes, `next_unit` skips what is no unit.
    """

    min_offset: int
    end: int
    flushed: int

    def reserve(self, size: int) -> int:
        """Where a unit (or contiguous units) of `size` bytes will lie; raises OSError when there is no room for it."""
        ...

    def write(self, at: int, data: bytes) -> None:
        """Write at the place that `reserve` gave."""
        ...

    def span(self, at: int) -> tuple[int, int, memoryview] | None:
        """The readable bytes around `at` that lie together: their first offset, their end, and the bytes."""
        ...

    def view(self, at: int, size: int) -> memoryview | None:
        """Readable bytes without a copy; None when they are not (or no longer) there."""
        ...

    def next_unit(self, at: int) -> int:
        """The place of the first unit at or behind `at`; -1 when there is none yet."""
        ...

    def roll(self, at: int) -> int:
        """The first offset of the file behind the one that holds `at`."""
        ...
