"""Property strings that all have as many pairs: a column of places for each pair, and no search for its owner.

Most producers put the same properties on every message, so most batches are of this kind.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ariane.spark.arrays import Ints, Mask

AtAnyByte = Callable[[int], npt.NDArray[Any]]
"""The bytes as big-endian numbers of so many bytes, one beginning at every byte."""


class PropertyGrid:
    """Where the names and values of each pair lie, by the number of the pair."""

    def __init__(self, offsets: Ints, separators: Ints) -> None:
        """`separators` has a row for each separator of a string, which are an SOH and an STX in turns."""
        starts, ends = offsets[:-1], offsets[1:]
        self._names_end = separators[0::2]
        closed = separators[1::2]
        self._names_at = [starts, *(closed + 1)][: len(self._names_end)]
        self._values_end = [*closed, ends][: len(self._names_end)]

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
        """Where the value of this name begins in each string, and its size: 0 where there is none."""
        at = self._names_at[0].copy()
        sizes = np.zeros(len(at), dtype=np.int64)
        for names_at, names_end, values_end in zip(self._names_at, self._names_end, self._values_end, strict=True):
            found = (names_end - names_at == len(name)) & (values_end > names_end + 1)
            for width, back, word in words(name) if found.any() else ():
                found &= at_any_byte(width)[np.maximum(names_end - back, 0)] == word
            if found.any():  # the last of several equal names wins
                np.copyto(at, names_end + 1, where=found)
                np.copyto(sizes, values_end - names_end - 1, where=found)
        return at, sizes


def words(name: bytes) -> Iterator[tuple[int, int, int]]:
    """A name in pieces of 8, 4, 2 and 1 bytes from its end: width, distance from the end, the piece as a number."""
    left = len(name)
    while left:
        width = next(width for width in (8, 4, 2, 1) if width <= left)
        yield width, len(name) - left + width, int.from_bytes(name[left - width : left], "big")
        left -= width
