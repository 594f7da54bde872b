"""The Bloom filter that RocketMQ stores with each expression in consumerFilter.json."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ariane.filter.murmur3 import murmur3_low64
from ariane.protocol.java import signed32


@dataclass(frozen=True, slots=True)
class Bloom:
    """Bit positions of names, for an error rate in percent and a number of names expected.

    >>> Bloom(20, 32).positions("group1#TopicA")
    [94, 55, 50]
    """

    error_percent: int
    expected: int

    @property
    def bits(self) -> int:
        """The length of the bit map."""
        return bloom_bits(self.error_percent, self.expected)

    @property
    def hashes(self) -> int:
        """How many positions a name has."""
        return bloom_hashes(self.error_percent)

    def positions(self, name: str) -> list[int]:
        """The bits of a name, from two 32-bit halves of one hash."""
        digest = murmur3_low64(name.encode("utf-8", "surrogatepass"))
        low, high = digest & 0xFFFFFFFF, digest >> 32
        return [_not_negative(signed32(low + i * high)) % self.bits for i in range(1, self.hashes + 1)]


def _not_negative(value: int) -> int:
    return ~value if value < 0 else value


def bloom_hashes(error_percent: int) -> int:
    """Hash functions for an error rate; 20 percent needs 3.

    >>> bloom_hashes(20)
    3
    """
    return math.ceil(_log(0.5, error_percent / 100.0))


def bloom_bits(error_percent: int, expected: int) -> int:
    """Bits, in whole bytes, for so many expected entries.

    >>> bloom_bits(20, 32)
    112
    """
    bits = math.ceil(expected * _log(2, 1 / (error_percent / 100.0)) * _log(2, math.e))
    return 8 * math.ceil(bits / 8.0)


def _log(base: float, number: float) -> float:
    """A quotient of natural logarithms, since `math.log2` rounds some values differently from Apache's formula."""
    return math.log(number) / math.log(base)
