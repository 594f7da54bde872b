"""Find message units in a part of a log.

Units follow each other without an index, so their starts are found by hopping from size to size. A unit states its own
position in the log: a matching magic with the right physical offset does not occur by chance, so a reader can start in
the middle of a file, and resume after damage.
"""

import re
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ariane.protocol.units import BLANK, BLANK_MAGIC, MAGIC, MIN_UNIT, PHYSICAL_OFFSET_AT

Positions = npt.NDArray[np.int64]

_MAGIC_BYTES: Final = MAGIC.to_bytes(4, "big")
_MAGIC = re.compile(re.escape(_MAGIC_BYTES))
_PHYSICAL = Struct(">q")
_MARKER: Final = PHYSICAL_OFFSET_AT + _PHYSICAL.size  # bytes of a unit that the sync marker needs
_STRIDE_RUN: Final = 8  # after so many units of one size, guess that the next have it too
_STRIDE_TRIES: Final = 4096


class End(Enum):
    """Why a search for units ended."""

    ENOUGH = "the limit or the end of the range was reached"
    BLANK = "the log goes on in the next file"
    TORN = "there is no whole unit"


class Hop(NamedTuple):
    """Consecutive units, and where and why the search ended."""

    starts: Positions
    end: int  # after the last unit
    why: End


def hop(buffer: memoryview, at: int, stop: int, limit: int = 1 << 30) -> Hop:
    """The units that begin in [at, stop) of the buffer, up to the first that is not whole or to about `limit` units."""
    found: list[int] = []
    runs: list[Positions] = []
    size = len(buffer)
    last, repeats, count = 0, 0, 0
    while at < stop and count < limit and at + BLANK.size <= size:
        total, magic = BLANK.unpack_from(buffer, at)
        if magic != MAGIC or total < MIN_UNIT or at + total > size:
            return Hop(_joined(runs, found), at, End.BLANK if magic == BLANK_MAGIC else End.TORN)
        found.append(at)
        at += total
        count += 1
        repeats = repeats + 1 if total == last else 0
        last = total
        if repeats >= _STRIDE_RUN:
            run = _same_size(buffer, at, min(stop, size), total)
            runs += (np.array(found, dtype=np.int64), run)
            found = []
            at += total * len(run)
            count += len(run)
            repeats = 0
    torn = at < stop and count < limit
    return Hop(_joined(runs, found), at, End.TORN if torn else End.ENOUGH)


def _joined(runs: list[Positions], found: list[int]) -> Positions:
    return np.concatenate([*runs, np.array(found, dtype=np.int64)])


def _same_size(buffer: memoryview, at: int, stop: int, total: int) -> Positions:
    """Starts of the units from `at` on that all have `total` bytes: producers with fixed records are common."""
    count = min((stop - at) // total, _STRIDE_TRIES)
    if count <= 0:
        return np.empty(0, dtype=np.int64)
    heads: npt.NDArray[np.uint32] = np.ndarray((count, 2), ">u4", buffer, at, (total, 4))
    same = (heads[:, 0] == total) & (heads[:, 1] == MAGIC)
    length = count if same.all() else int(np.argmin(same))
    return at + total * np.arange(length, dtype=np.int64)


def find_sync(buffer: memoryview, base: int, at: int, stop: int) -> int:
    """The first position in [at, stop) where a unit states `base` + that position as its place, or -1."""
    while True:
        magic = _MAGIC.search(buffer, at + 4, min(stop + 7, len(buffer)))
        if magic is None:
            return -1
        start = magic.start() - 4
        if in_sync(buffer, base, start):
            return start
        at = start + 1


def in_sync(buffer: memoryview, base: int, at: int) -> bool:
    """Whether a unit starts here and states this position."""
    if at + _MARKER > len(buffer) or buffer[at + 4 : at + 8] != _MAGIC_BYTES:
        return False
    return bool(_PHYSICAL.unpack_from(buffer, at + PHYSICAL_OFFSET_AT)[0] == base + at)
