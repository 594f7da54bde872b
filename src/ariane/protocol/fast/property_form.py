"""Properties that differ from earlier ones in the unique key alone, like most that a producer sends."""

from typing import Final

from ariane.message import UNIQUE_KEY
from ariane.protocol.fast.matching import stands_at
from ariane.protocol.native import BytesWriter, i64
from ariane.protocol.properties import NAME_END

_ESCAPED: Final = UNIQUE_KEY.encode() + b"\\u0001"
_RAW: Final = UNIQUE_KEY.encode() + NAME_END


class PropertyForm:
    """The text around the unique key, escaped as in JSON and plain; `key` is the key that `read` found last."""

    def __init__(self, before: bytes, after: bytes, length: int, text: bytes, names: int) -> None:
        self._before = before
        self._after = after
        self._length: i64 = length
        at = text.find(_RAW) + len(_RAW)
        self._raw_before = text[:at]
        self._raw_after = text[at + length :]
        self.names = names
        self.key = b""

    def read(self, header: bytes, at: i64) -> i64:
        """The end of the properties that start at `at`; -1 when they have another form."""
        start = at + len(self._before)
        end = start + self._length
        last = end + len(self._after)
        if last > len(header) or not stands_at(self._before, header, at) or not stands_at(self._after, header, end):
            return -1
        at = start
        while at < end:
            byte: i64 = header[at]
            if not (48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122):
                return -1
            at += 1
        self.key = header[start:end]
        return last - 1

    def write(self, writer: BytesWriter, key: bytes) -> None:
        """Write the properties with this unique key."""
        writer.write(self._raw_before)
        writer.write(key)
        writer.write(self._raw_after)

    def text(self, key: bytes) -> bytes:
        """The properties with this unique key."""
        return self._raw_before + key + self._raw_after


def form_of(escaped: bytes, text: bytes, names: int) -> PropertyForm | None:
    """The form of properties with a unique key; `escaped` includes the closing quote of the JSON text."""
    start = escaped.find(_ESCAPED)
    if start < 0:
        return None
    start += len(_ESCAPED)
    end = escaped.find(b"\\", start)
    if end < 0:
        end = len(escaped) - 1
    return PropertyForm(escaped[:start], escaped[end:], end - start, text, names)
