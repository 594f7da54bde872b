"""Read single properties of many property strings at once, without splitting the strings.

A property string is `name SOH value STX …`. All separators of all strings are found in one pass; a wanted name is then
a comparison of the few bytes before each SOH.
"""

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ariane.spark.arrow.arrays import Ints, from_numpy, pieces, to_numpy
from ariane.spark.arrow.property_grid import AtAnyByte, PropertyGrid, words

_SOH: Final = 1
_STX: Final = 2

MAP_TYPE: Final = pa.map_(pa.string(), pa.string())


class PropertyTable:
    """The property strings of many messages. The last of several equal names wins, an empty value counts as none."""

    def __init__(self, strings: pa.BinaryArray) -> None:
        self._strings = strings
        count = len(strings)
        offsets = np.frombuffer(strings.buffers()[1], dtype=np.int32, count=count + 1, offset=4 * strings.offset)
        self._offsets = offsets.astype(np.int64)
        self._buffer = memoryview(strings.buffers()[2] or b"")
        self._bytes = np.frombuffer(self._buffer, dtype=np.uint8)

    @cached_property
    def _separators(self) -> Ints:
        begin, end = int(self._offsets[0]), int(self._offsets[-1])
        window = self._bytes[begin:end]
        marks = np.flatnonzero(window - np.uint8(_SOH) <= _STX - _SOH)  # smaller values wrap around
        return marks + begin

    @cached_property
    def _ends_name(self) -> npt.NDArray[np.bool_]:
        """Which separators are SOH; the others are STX."""
        return self._bytes[self._separators] == _SOH

    @cached_property
    def _names(self) -> Ints:
        """Where among the separators names end."""
        return np.flatnonzero(self._ends_name)

    @cached_property
    def _pair_ends(self) -> Ints:
        return self._separators[~self._ends_name]

    @cached_property
    def _grid(self) -> PropertyGrid | None:
        return PropertyGrid.find(self._offsets, self._separators, self._ends_name)

    def column(self, name: str) -> pa.BinaryArray:
        """The values of one property; null where a message has none."""
        search = self._search if self._grid is None else self._grid.values
        at, sizes = search(name.encode(), self._at_any_byte)
        return pieces(self._buffer, at, sizes, valid=sizes > 0)

    def _search(self, name: bytes, at_any_byte: AtAnyByte) -> tuple[Ints, Ints]:
        """The start and size of a name's value in each string; size 0 where it is missing."""
        found, owners = self._find(name, at_any_byte)
        values_at = self._separators[found] + 1
        values_end = self._value_ends(found, owners)
        keep = values_end > values_at
        at, sizes = self._offsets[:-1].copy(), np.zeros(len(self._strings), dtype=np.int64)
        at[owners[keep]] = values_at[keep]
        sizes[owners[keep]] = (values_end - values_at)[keep]
        return at, sizes

    def _find(self, name: bytes, at_any_byte: AtAnyByte) -> tuple[Ints, Ints]:
        """Where among the separators this name ends, once in each pair that has it, and in which row."""
        found = self._names[self._separators[self._names] - len(name) >= self._offsets[0]]
        for width, back, word in words(name):
            found = found[at_any_byte(width)[self._separators[found] - back] == word]
        owners = self._owners(self._separators[found])
        at, string_at = self._separators[found] - len(name), self._offsets[owners]
        behind_pair = self._bytes[np.maximum(at - 1, 0)] == _STX
        whole = (at == string_at) | ((at > string_at) & behind_pair)
        return (found, owners) if whole.all() else (found[whole], owners[whole])

    def _at_any_byte(self, width: int) -> npt.NDArray[Any]:
        """The bytes as big-endian numbers of so many bytes, one beginning at every byte."""
        count = max(len(self._bytes) - width + 1, 0)
        return np.ndarray((count,), f">u{width}", self._buffer, 0, (1,))

    def _owners(self, at: Ints) -> Ints:
        """The rows in whose strings these places lie."""
        return np.searchsorted(self._offsets, at, side="right") - 1

    def _value_ends(self, found: Ints, owners: Ints) -> Ints:
        """Where values end: at the next separator, unless that is an SOH inside the value, or in another string."""
        following = np.minimum(found + 1, len(self._separators) - 1)
        ends = np.where(following > found, self._separators[following], self._offsets[-1])
        odd = (following > found) & self._ends_name[following]
        if odd.any():
            ends[odd] = self._pair_end(self._separators[found[odd]], owners[odd])
        return np.minimum(ends, self._offsets[owners + 1])

    def _pair_end(self, at: Ints, owners: Ints) -> Ints:
        """The end of the pair around each place: the next STX, or the end of the string."""
        closed = np.append(self._pair_ends, self._offsets[-1])
        return np.minimum(closed[np.searchsorted(self._pair_ends, at)], self._offsets[owners + 1])

    def maps(self) -> pa.MapArray:
        """All properties of each message as a map."""
        names_at, names_end, values_end, owners = self._pairs()
        names = self._pieces(names_at, names_end)
        values = self._pieces(names_end + 1, values_end)
        last = _last_of_each(owners, names)
        counts = np.bincount(owners[last], minlength=len(self._strings))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        picked = from_numpy(np.flatnonzero(last))
        return pa.MapArray.from_arrays(
            from_numpy(offsets), text(names.take(picked)), text(values.take(picked)), type=MAP_TYPE
        )

    def _pairs(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Name begin, name end, value end and row of every pair that has a name and a value."""
        begins = np.union1d(self._offsets[:-1], self._pair_ends + 1)
        begins = begins[begins < self._offsets[-1]]
        owners = self._owners(begins)
        ends = self._pair_end(begins, owners)
        name_ends = self._separators[self._names]
        names_end = np.append(name_ends, self._offsets[-1])[np.searchsorted(name_ends, begins)]
        good = (names_end > begins) & (ends > names_end + 1)
        return begins[good], names_end[good], ends[good], owners[good]

    def _pieces(self, at: Ints, end: Ints) -> pa.BinaryArray:
        return pieces(self._buffer, at, end - at)


def _last_of_each(owners: Ints, names: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Which pairs count when a message has a name twice: the last ones."""
    codes = names.dictionary_encode()
    place = owners * (len(codes.dictionary) + 1) + to_numpy(codes.indices)
    _, from_end = np.unique(place[::-1], return_index=True)
    last = np.zeros(len(place), dtype=bool)
    last[len(place) - 1 - from_end] = True
    return last


def text(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as UTF-8; what is none is shown with replacement characters instead of failing the whole batch."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [None if value is None else value.decode(errors="replace") for value in values.to_pylist()]
        return pa.array(decoded, type=pa.string())
