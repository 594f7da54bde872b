"""Property strings with equally many pairs: one column of positions per pair.

Most producers put the same properties on every message, so most batches are of this kind.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ariane.spark.arrow.arrays import Ints, Mask

AtAnyByte = Callable[[int], npt.NDArray[Any]]
"""The bytes as big-endian numbers of so many bytes, one beginning at every byte."""


class PropertyGrid:
    """The positions of names and values, by pair number."""

    def __init__(self, offsets: Ints, separators: Ints) -> None:
        """`separators` has a row for each separator of a string, which are an SOH and an STX in turns."""
        names_end, closed = separators[0::2], separators[1::2]
        count = len(names_end)
        names_at = [offsets[:-1], *(closed + 1)][:count]
        values_end = [*closed, offsets[1:]][:count]
        self._pairs = [Pair(*places) for places in zip(names_at, names_end, values_end, strict=True)]

    @classmethod
    def find(cls, offsets: Ints, separators: Ints, ends_name: Mask) -> "PropertyGrid | None":
        """The grid of these strings; None when they are not alike."""
        rows = len(offsets) - 1
        count = len(separators) // rows if rows else 0
        if not count or count * rows != len(separators):
            return None
        kinds = ends_name.reshape(rows, count)
        if not kinds[:, 0::2].all() or kinds[:, 1::2].any():
            return None
        places = np.ascontiguousarray(separators.reshape(rows, count).T)
        if (places[0] < offsets[:-1]).any() or (places[-1] >= offsets[1:]).any():
            return None
        return cls(offsets, places)

    def values(self, name: bytes, at_any_byte: AtAnyByte) -> tuple[Ints, Ints]:
        """The start and size of a name's value in each string; size 0 where it is missing."""
        found = [(pair, pair.has(name, at_any_byte)) for pair in self._pairs if pair.may_have(name)]
        if found and found[-1][1].all():  # the last of several equal names wins
            return found[-1][0].values_at, found[-1][0].value_sizes
        first = self._pairs[0].names_at
        at, sizes = first.copy(), np.zeros(len(first), dtype=np.int64)
        for pair, here in found:
            np.copyto(at, pair.values_at, where=here)
            np.copyto(sizes, pair.value_sizes, where=here)
        return at, sizes


class Pair:
    """The pair with one number, in all strings."""

    def __init__(self, names_at: Ints, names_end: Ints, values_end: Ints) -> None:
        self.names_at = names_at
        self._names_end = names_end
        self._values_end = values_end

    @cached_property
    def values_at(self) -> Ints:
        return self._names_end + 1

    @cached_property
    def value_sizes(self) -> Ints:
        return self._values_end - self.values_at

    @cached_property
    def _name_sizes(self) -> Ints:
        return self._names_end - self.names_at

    @cached_property
    def _one_name_size(self) -> int | None:
        """The size of the name here in every string; None when it differs."""
        first = int(self._name_sizes[0])
        return first if (self._name_sizes == first).all() else None

    def may_have(self, name: bytes) -> bool:
        """Whether the name has the size for any of these."""
        return self._one_name_size in (None, len(name))

    def has(self, name: bytes, at_any_byte: AtAnyByte) -> Mask:
        """In which strings this is the pair of this name, with a value that is not empty."""
        found: Mask = self.value_sizes > 0
        if self._one_name_size is None:
            found &= self._name_sizes == len(name)
        for width, back, word in words(name):
            found &= at_any_byte(width)[np.maximum(self._names_end - back, 0)] == word
        return found


def words(name: bytes) -> Iterator[tuple[int, int, int]]:
    """A name in pieces of 8, 4, 2 and 1 bytes from its end: width, distance from the end, the piece as a number."""
    left = len(name)
    while left:
        width = next(width for width in (8, 4, 2, 1) if width <= left)
        yield width, len(name) - left + width, int.from_bytes(name[left - width : left], "big")
        left -= width
