"""The body of a batch: several messages sent as one request, in this form each.

total i32 | magic i32 (unused) | crc i32 (unused) | flag i32 | body (i32 length) | properties (i16 length)
"""

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from ariane.errors import ProtocolError

_HEAD: Final = Struct(">iiiii")  # total, magic, crc, flag, length of the body
_READ: Final = Struct(">i8xii")  # the same without what is unused
_I16: Final = Struct(">h")
_MOST: Final = 0x7FFF + 2  # bytes of properties and of their length
_FIXED: Final = _HEAD.size + _I16.size


class BatchItem(NamedTuple):
    """One message of a batch; topic and all else are those of the batch."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(items: list[BatchItem]) -> bytes:
    """The body of a batch request."""
    parts: list[bytes] = []
    for flag, body, properties in items:
        total = _FIXED + len(body) + len(properties)
        parts += (_HEAD.pack(total, 0, 0, flag, len(body)), body, _I16.pack(len(properties)), properties)
    return b"".join(parts)


def decode_batch(buffer: bytes) -> list[BatchItem]:
    """The messages of a batch; ProtocolError when the bytes do not add up."""
    return [BatchItem(*item) for item in split_batch(buffer)]


def split_batch(buffer: bytes) -> list[tuple[int, bytes, bytes]]:
    """The same as bare tuples of flag, body and properties: one is made for every message that a broker takes."""
    items: list[tuple[int, bytes, bytes]] = []
    size = len(buffer)
    at = 0
    try:
        while at < size:
            head: tuple[int, int, int] = _READ.unpack_from(buffer, at)
            total, flag, body_length = head
            end = at + total
            body_end = at + 20 + body_length
            if body_length < 0 or body_end + 2 > end or end > size:
                raise ProtocolError(f"message {len(items)} of the batch: its parts do not add up to {total} bytes")
            if buffer[body_end] << 8 | buffer[body_end + 1] != end - body_end - 2 or end - body_end > _MOST:
                raise ProtocolError(f"message {len(items)} of the batch: its parts do not add up to {total} bytes")
            items.append((flag, buffer[at + 20 : body_end], buffer[body_end + 2 : end]))
            at = end
    except StructError:
        raise ProtocolError(f"message {len(items)} of the batch is torn") from None
    return items
