"""One file of a log."""

from pathlib import Path

from ariane.env import MappedFile


class LogSegment:
    """The bytes of one file of a log; `base` is the offset of the first."""

    __slots__ = ("base", "memory")

    def __init__(self, base: int, memory: memoryview) -> None:
        self.base = base
        self.memory = memory


class LogFile(LogSegment):
    """A file of a log in use."""

    __slots__ = ("file",)

    def __init__(self, base: int, file: MappedFile) -> None:
        super().__init__(base, file.view(0, file.size))
        self.file = file

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.file.path

    def close(self) -> bool:
        """Close the file; may be repeated. False while readers hold slices of it."""
        self.memory.release()
        return self.file.close()
