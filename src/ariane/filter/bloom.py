"""The Bloom filter that RocketMQ keeps beside each expression in consumerFilter.json."""

from __future__ import annotations

from dataclasses import dataclass

from ariane.filter.bloom_size import bloom_bits, bloom_hashes
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
