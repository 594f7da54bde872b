"""The body of a batch: several messages sent as one request, in this form each.

total i32 | magic i32 (unused) | crc i32 (unused) | flag i32 | body (i32 length) | properties (i16 length)
"""

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from ariane.errors import ProtocolError

_HEAD: Final = Struct(">iiiii")  # total, magic, crc, flag, length of the body
_I16: Final = Struct(">h")
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
    items: list[BatchItem] = []
    at = 0
    try:
        while at < len(buffer):
            total, _, _, flag, body_length = _HEAD.unpack_from(buffer, at)
            body_at = at + _HEAD.size
            body_end = body_at + body_length
            (properties_length,) = _I16.unpack_from(buffer, body_end)
            end = at + total
            if body_length < 0 or properties_length < 0 or body_end + 2 + properties_length != end or end > len(buffer):
                raise ProtocolError(f"message {len(items)} of the batch: its parts do not add up to {total} bytes")
            items.append(BatchItem(flag, buffer[body_at:body_end], buffer[body_end + 2 : end]))
            at = end
    except StructError:
        raise ProtocolError(f"message {len(items)} of the batch is torn") from None
    return items
