"""The layout of records in log files: bare units in the plain commitlog, units after a header in other logs."""

from typing import Final, Protocol

from librt.strings import BytesWriter

from ariane.protocol.units import BLANK, BLANK_MAGIC
from ariane.store.units.reading import kind_at

BLANK_LENGTH: Final = 8  # of the filler at the end of a file, in every framing


class Framing(Protocol):
    """The header of a record, and the filler that ends a file."""

    @property
    def header(self) -> int:
        """Bytes before each unit."""
        ...

    def write_header(self, tail: BytesWriter, position: int, size: int) -> None:
        """Write the header of the record at `position` whose unit has `size` bytes."""
        ...

    def filler(self, room: int) -> bytes:
        """What is written when the next record does not fit into the last `room` bytes of a file."""
        ...

    def kind_at(self, memory: memoryview, at: int) -> int:
        """What begins at position `at` of a file: UNIT, END_OF_FILE or NOTHING."""
        ...


class PlainFraming:
    """RocketMQ's commitlog: units one after the other; size and blank magic at the end of a file."""

    @property
    def header(self) -> int:
        """Units have no header."""
        return 0

    def write_header(self, tail: BytesWriter, position: int, size: int) -> None:
        """Write nothing."""

    def filler(self, room: int) -> bytes:
        """The blank record."""
        return BLANK.pack(room, BLANK_MAGIC)

    def kind_at(self, memory: memoryview, at: int) -> int:
        """Tell by the magic."""
        return kind_at(memory, at)
