"""Compare bytes in place, eight at a time, without copies."""

from typing import Final

from ariane.protocol.native import i64, read_i64_le

_ONES: Final = 0x0101010101010101


def stands_at(part: bytes, text: bytes, at: i64) -> bool:
    """Whether `text` contains `part` at this position."""
    size: i64 = len(part)
    return at + size <= len(text) and equal_span(part, 0, text, at, size)


def equal_span(one: bytes, one_at: i64, other: bytes, other_at: i64, size: i64) -> bool:
    """Whether `size` bytes from these positions on are equal. REQUIRES: both have at least `size` bytes there."""
    done: i64 = 0
    if size >= 8:
        last = size - 8  # the last comparison may overlap the one before
        while done < last:
            if read_i64_le(one, one_at + done) != read_i64_le(other, other_at + done):
                return False
            done += 8
        return read_i64_le(one, one_at + last) == read_i64_le(other, other_at + last)
    while done < size:
        if one[one_at + done] != other[other_at + done]:
            return False
        done += 1
    return True


def has_byte(text: bytes, start: i64, end: i64, byte: i64) -> bool:
    """Whether `byte` is in `text[start:end]`.

    Of eight bytes that are looked at together, each that is `byte` becomes zero, and less one has its highest bit set.
    """
    at = start
    while at + 8 <= end:
        eight = read_i64_le(text, at) ^ byte * _ONES
        if ((eight - _ONES) & ~eight) >> 7 & _ONES:
            return True
        at += 8
    while at < end:
        if text[at] == byte:
            return True
        at += 1
    return False
