"""Java's arithmetic where it is part of a format: string hashes and signed 32-bit numbers."""

from operator import mul
from typing import Final

from ariane.protocol.native import i64

_MASK: Final = 0xFFFFFFFF
_LONGEST: Final = 512
_POWERS: list[int] = [
    pow(31, n, 1 << 32) for n in range(_LONGEST - 1, -1, -1)
]  # descending: a tail of it fits any text


def signed32(value: int) -> int:
    """Wrap to Java's int."""
    value &= _MASK
    return value - (1 << 32) if value & 0x80000000 else value


def string_hash(text: str) -> int:
    """`String.hashCode()`.

    >>> string_hash("TagA")
    2598919
    """
    if text.isascii():
        return bytes_hash(text.encode("ascii"))
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (value * 31 + (units[i] << 8 | units[i + 1])) & _MASK
    return signed32(value)


def bytes_hash(ascii_text: bytes) -> int:
    """`String.hashCode()` of a text given as ASCII bytes; the sum runs in C, which makes it fast."""
    length = len(ascii_text)
    if length > _LONGEST:
        head = bytes_hash(ascii_text[:-_LONGEST])
        return signed32(head * pow(31, _LONGEST, 1 << 32) + bytes_hash(ascii_text[-_LONGEST:]))
    return signed32(sum(map(mul, ascii_text, _POWERS[_LONGEST - length :])))


def rolled(value: int, ascii_text: bytes) -> int:
    """Continue a hash: `value` is the hash of the start of a text, `ascii_text` the rest of it; 32 bits.

    >>> signed32(rolled(string_hash("Tag"), b"A"))
    2598919
    """
    hashed: i64 = value & _MASK
    for at in range(len(ascii_text)):
        hashed = hashed * 31 + ascii_text[at] & _MASK
    return hashed
