"""Write numbers as text into a buffer. For compiled modules: plain Python formats faster."""

from typing import Final

from librt.strings import write_i64_be

from ariane.protocol.frame_head import HEAD_SIZE
from ariane.protocol.native import BytesWriter, i64, u8

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
    """Write sixteen hexadecimal digits in upper case."""
    write_i64_be(writer, _eight_digits(value >> 32))
    write_i64_be(writer, _eight_digits(value))


def _eight_digits(value: i64) -> i64:
    """The hexadecimal digits of the lower 32 bits, a character in each byte."""
    spread = (value & 0xFFFF0000) << 16 | value & 0xFFFF
    spread = (spread << 8 | spread) & 0x00FF00FF00FF00FF
    spread = (spread << 4 | spread) & 0x0F0F0F0F0F0F0F0F  # a digit in each byte
    letters = spread + 0x0606060606060606 >> 4 & 0x0101010101010101  # 1 where the digit is above 9
    return spread + 0x3030303030303030 + letters * 7  # from "0" to "9", then from "A"


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
