"""Splits a stream of log bytes into records."""

from collections.abc import Sequence
from typing import Final

from librt.strings import read_i32_be

from ariane.errors import ProtocolError

_MESSAGE: Final = 0xDAA320A7 - (1 << 32)
_BLANK: Final = 0xCBD43194 - (1 << 32)


class RecordCutter:
    """Splits a stream of log bytes into whole records, so that a slave's log always ends at a record boundary.

    A master sends any range of bytes, also a part of a message. In a slave's log that part could be taken for a whole
    message after a crash, because properties have no checksum. A filler may be appended in parts: all of it but its
    head is zero.
    """

    def __init__(self, at: int, file_size: int, filler: int = 0) -> None:
        self.position = at
        """The log offset after the last whole record."""
        self.held_size = 0
        """The bytes that have arrived after it."""
        self._held: list[bytes] = []
        self._missing = 0  # bytes that must arrive before a record can be whole
        self._file_size = file_size
        self._filler = filler  # bytes of a filler that are to come

    @property
    def held(self) -> bytes:
        """The beginning of a record whose end has not arrived."""
        return b"".join(self._held)

    def hold(self, data: bytes) -> None:
        """Begin with these bytes of a record."""
        self._held = [data]
        self.held_size = len(data)

    def cut(self, pieces: Sequence[bytes | memoryview]) -> tuple[bytes, int]:
        """What was held and the pieces as one, and how many bytes of it are whole records; the rest is held.

        The pieces are copied, so that their memory may be used again. Raises ProtocolError for bytes that are no
        records.
        """
        size = 0
        for piece in pieces:
            size += len(piece)
        if size < self._missing:  # a large record is put together once
            self._held += [bytes(piece) for piece in pieces]
            self.held_size += size
            self._missing -= size
            return b"", 0
        data = b"".join([*self._held, *pieces])
        return data, self._cut(data)

    def _cut(self, data: bytes) -> int:
        at, end, start, file_size = 0, len(data), self.position, self._file_size
        missing = 0
        if self._filler:
            at = min(self._filler, end)
            self._filler -= at
        room = file_size - (start + at) % file_size
        while end - at >= 8:
            size: int = read_i32_be(data, at)
            magic: int = read_i32_be(data, at + 4)
            if magic == _MESSAGE and 8 < size <= room:
                if end - at < size:
                    missing = size - (end - at)
                    break
                at += size
                room -= size
            elif magic == _BLANK and size == room:
                taken = min(room, end - at)
                at += taken
                self._filler = room - taken
                room = file_size
            else:
                raise ProtocolError(
                    f"no record begins at {start + at} (size {size}, magic {magic & 0xFFFFFFFF:#x}): the master's log "
                    f"is damaged, or its files have another size than {file_size}"
                )
            if not room:
                room = file_size
        self.position = start + at
        self.held_size = end - at
        self._missing = missing
        self._held = [data[at:]] if at < end else []
        return at
