"""Write numbers as text into a buffer. For compiled modules: plain Python formats faster."""

from typing import Final

from librt.strings import write_i16_be

from ariane.protocol.frame_head import HEAD_SIZE
from ariane.protocol.native import BytesWriter, i16, i64, u8

_MINUS: Final = ord("-")
_EIGHT_DIGITS: Final = 100_000_000


def write_decimal(writer: BytesWriter, value: i64) -> None:
    """Write a decimal number. Digits are found last first; eight at a time are reversed in one machine integer."""
    if value < 0:
        writer.append(_MINUS)
        value = -value
    least: i64 = 1
    if value >= _EIGHT_DIGITS:
        rest = value // _EIGHT_DIGITS
        write_decimal(writer, rest)
        value -= rest * _EIGHT_DIGITS
        least = 8
    count: i64 = 0
    digits: i64 = 0
    while value or count < least:
        rest = value // 10
        digits = digits << 8 | 48 + value - rest * 10
        value = rest
        count += 1
    while count:
        writer.append(u8(digits & 255))
        digits >>= 8
        count -= 1


def write_hexadecimal(writer: BytesWriter, value: i64) -> None:
    """Write sixteen hexadecimal digits in upper case, two at a time."""
    shift: i64 = 56
    while shift >= 0:
        high = value >> shift + 4 & 15
        low = value >> shift & 15
        high += 48 if high < 10 else 55
        low += 48 if low < 10 else 55
        write_i16_be(writer, i16(high << 8 | low))
        shift -= 8


def set_head(writer: BytesWriter, body_length: i64) -> None:
    """Write the head of a frame with a JSON header over the first `HEAD_SIZE` bytes, which were left free for it."""
    size: i64 = len(writer)
    _set_i32(writer, 0, size - 4 + body_length)
    _set_i32(writer, 4, size - HEAD_SIZE)  # the serialisation in its highest byte is 0, JSON


def _set_i32(writer: BytesWriter, at: i64, value: i64) -> None:
    writer[at] = u8(value >> 24 & 255)
    writer[at + 1] = u8(value >> 16 & 255)
    writer[at + 2] = u8(value >> 8 & 255)
    writer[at + 3] = u8(value & 255)
