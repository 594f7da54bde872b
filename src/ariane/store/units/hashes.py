"""Java's string hashes of tags and keys given as bytes, as queues and index store them."""

from types import FunctionType
from typing import Final

from ariane.protocol.java import rolled, signed32, string_hash
from ariane.protocol.native import i64, read_i64_le

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000
_SHARED: Final = 20  # message ids of one client share a prefix: address, process, class loader
_POWER: Final = pow(31, _SHARED, 1 << 32)
_MOST: Final = 100_000
_31_2: Final = 31**2
_31_4: Final = 31**4
_31_8: Final = 31**8 & _MASK
_BYTES: Final = 0x00FF00FF00FF00FF  # every other byte, and every other pair of bytes, of eight
_PAIRS: Final = 0x0000FFFF0000FFFF
_ONES: Final = 0x0101010101010101
_starts: dict[bytes, int] = {}
_codes: dict[bytes, int] = {}


def key_hash(text: str) -> int:
    """The hash of `topic#key` as index files store it: Java's, made positive."""
    return _positive(string_hash(text) & _MASK)


def _positive(value: int) -> int:
    """Java's Math.abs of an int given as its 32 bits; Integer.MIN_VALUE gives 0."""
    if value < _SIGN:
        return value
    return 0 if value == _SIGN else (1 << 32) - value


def tags_code(tags: bytes) -> int:
    """The hash of a tag; cached in plain Python, because tags repeat."""
    if not PLAIN:
        quick = _ascii_hash(0, tags, 0, len(tags))
        if quick >= 0:
            return signed32(quick)
    code = _codes.get(tags)
    if code is None:
        if len(_codes) >= _MOST:
            _codes.clear()
        code = _codes[tags] = string_hash(tags.decode(errors="replace"))
    return code


def joined_hash(head: int, key: bytes) -> int:
    """The index hash of a text whose first part has the Java hash `head` and whose second part is `key`."""
    if not PLAIN:
        return part_hash(head, key, 0, len(key))
    if not key.isascii():
        return _wide_hash(head, key)
    value = head
    if len(key) > _SHARED:
        start = key[:_SHARED]
        known = _starts.get(start)
        value = (head * _POWER + (_remember(start) if known is None else known)) & _MASK
        key = key[_SHARED:]
    return _positive(rolled(value, key))


def part_hash(head: int, text: bytes, start: int, end: int) -> int:
    """Like `joined_hash`, for a key that is a part of `text`."""
    if PLAIN:
        return joined_hash(head, text[start:end])
    quick = _ascii_hash(head & _MASK, text, start, end)
    return _positive(quick) if quick >= 0 else _wide_hash(head, text[start:end])


def _wide_hash(head: int, key: bytes) -> int:
    text = key.decode(errors="replace")
    units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    return _positive((head * pow(31, units, 1 << 32) + string_hash(text)) & _MASK)


def _ascii_hash(head: i64, text: bytes, start: i64, end: i64) -> i64:
    """As 32 bits; -1 when not all bytes are ASCII. Eight bytes are put together as pairs, fours and one sum."""
    value = head
    at = start
    while at + 8 <= end:
        eight = read_i64_le(text, at)
        if eight >> 7 & _ONES:
            return -1
        pairs = (eight & _BYTES) * 31 + (eight >> 8 & _BYTES)
        fours = (pairs & _PAIRS) * _31_2 + (pairs >> 16 & _PAIRS)
        value = (value * _31_8 + (fours & _MASK) * _31_4 + (fours >> 32)) & _MASK
        at += 8
    while at < end:
        byte: i64 = text[at]
        if byte > 127:
            return -1
        value = value * 31 + byte & _MASK
        at += 1
    return value


def _remember(start: bytes) -> int:
    if len(_starts) >= _MOST:
        _starts.clear()
    value = _starts[start] = string_hash(start.decode("ascii"))
    return value


PLAIN: Final = isinstance(_ascii_hash, FunctionType)
"""Whether this module is not compiled."""
