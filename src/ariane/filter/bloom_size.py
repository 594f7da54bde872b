"""How large the Bloom filter of the consumers' expressions is, which `bitMapLengthConsumeQueueExt` reports."""

from __future__ import annotations

import math


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
