"""Splits a stream of log bytes into records."""

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
        self.held = b""
        """The beginning of a record whose end has not arrived."""
        self._file_size = file_size
        self._filler = filler  # bytes of a filler that are to come

    def cut(self, data: bytes) -> bytes:
        """The whole records in `held` and `data`. Raises ProtocolError for bytes that are no records."""
        if self.held:
            data = self.held + data
        at, end, start, file_size = 0, len(data), self.position, self._file_size
        if self._filler:
            at = min(self._filler, end)
            self._filler -= at
        room = file_size - (start + at) % file_size
        while end - at >= 8:
            size: int = read_i32_be(data, at)
            magic: int = read_i32_be(data, at + 4)
            if magic == _MESSAGE and 8 < size <= room:
                if end - at < size:
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
        if at == end:
            self.held = b""
            return data
        self.held = data[at:]
        return data[:at]
