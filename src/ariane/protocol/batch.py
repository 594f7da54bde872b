"""The body of a batch: several messages sent as one request, each in this form.

total i32 | magic i32 (unused) | crc i32 (unused) | flag i32 | body (i32 length) | properties (i16 length)
"""

from struct import Struct
from types import FunctionType
from typing import Final, NamedTuple

from ariane.errors import ProtocolError
from ariane.protocol.native import i64, read_i32_be

_HEAD: Final = Struct(">iiiii")  # total, magic, crc, flag, length of the body
_READ: Final = Struct(">i8xii")  # the same without the unused fields
_I16: Final = Struct(">h")
_MOST: Final = 0x7FFF + 2  # bytes of properties and of their length
_FIXED: Final = _HEAD.size + _I16.size


class BatchItem(NamedTuple):
    """One message of a batch; topic and all other fields are those of the batch."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(items: list[BatchItem]) -> bytes:
    """Encode the body of a batch request."""
    return b"".join([encode_item(flag, body, properties) for flag, body, properties in items])


def encode_item(flag: int, body: bytes, properties: bytes) -> bytes:
    """Encode one message of a batch."""
    total = _FIXED + len(body) + len(properties)
    return b"".join([_HEAD.pack(total, 0, 0, flag, len(body)), body, _I16.pack(len(properties)), properties])


def decode_batch(buffer: bytes) -> list[BatchItem]:
    """Decode the messages of a batch; ProtocolError when the lengths do not match."""
    check_batch(buffer)
    items: list[BatchItem] = []
    at = 0
    while at < len(buffer):
        total, flag, body_length = _READ.unpack_from(buffer, at)
        middle, end = at + _HEAD.size + body_length, at + total
        items.append(BatchItem(flag, buffer[at + _HEAD.size : middle], buffer[middle + 2 : end]))
        at = end
    return items


def check_batch(buffer: bytes) -> int:
    """Check a batch and count its messages; ProtocolError when the lengths do not match."""
    size: i64 = len(buffer)
    at: i64 = 0
    count = 0
    while at < size:
        if at + _FIXED > size:
            raise ProtocolError(f"message {count} of the batch is torn")
        total = _i32(buffer, at)
        end = at + total
        middle = at + 20 + _i32(buffer, at + 16)
        if middle < at + 20 or middle + 2 > end or end > size:
            raise ProtocolError(f"message {count} of the batch: its parts do not add up to {total} bytes")
        if buffer[middle] << 8 | buffer[middle + 1] != end - middle - 2 or end - middle > _MOST:
            raise ProtocolError(f"message {count} of the batch: its parts do not add up to {total} bytes")
        count += 1
        at = end
    return count


def _i32(buffer: bytes, at: i64) -> i64:
    if PLAIN:
        return int.from_bytes(buffer[at : at + 4], "big", signed=True)
    return i64(read_i32_be(buffer, at))


PLAIN: Final = isinstance(check_batch, FunctionType)
"""Whether this module is not compiled."""
