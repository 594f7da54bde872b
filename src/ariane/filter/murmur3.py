"""MurmurHash3 x64 128, of which RocketMQ uses the first 64 bits."""

from __future__ import annotations

import struct

MASK = 0xFFFFFFFFFFFFFFFF
C1 = 0x87C37B91114253D5
C2 = 0x4CF5AD432745937F
BLOCK = struct.Struct("<QQ")


def murmur3_low64(data: bytes) -> int:
    """The first 64 bits, unsigned, with seed 0.

    >>> hex(murmur3_low64(b"hello"))
    '0xcbd8a7b341bd9b02'
    """
    first = second = 0
    whole = len(data) // BLOCK.size * BLOCK.size
    for low, high in BLOCK.iter_unpack(data[:whole]):
        first, second = _mix_block(first, second, low, high)
    low, high = BLOCK.unpack(data[whole:].ljust(BLOCK.size, b"\0"))
    first ^= _scramble_low(low)
    second ^= _scramble_high(high)
    return _finish(first ^ len(data), second ^ len(data))


def _mix_block(first: int, second: int, low: int, high: int) -> tuple[int, int]:
    first = _rotate(first ^ _scramble_low(low), 27) + second
    first = (first * 5 + 0x52DCE729) & MASK
    second = _rotate(second ^ _scramble_high(high), 31) + first
    return first, (second * 5 + 0x38495AB5) & MASK


def _scramble_low(value: int) -> int:
    return _rotate(value * C1 & MASK, 31) * C2 & MASK


def _scramble_high(value: int) -> int:
    return _rotate(value * C2 & MASK, 33) * C1 & MASK


def _finish(first: int, second: int) -> int:
    first = (first + second) & MASK
    second = (second + first) & MASK
    return (_avalanche(first) + _avalanche(second)) & MASK


def _avalanche(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return value ^ value >> 33


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & MASK
