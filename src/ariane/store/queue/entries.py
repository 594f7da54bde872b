"""The entry of a consume queue: the position of one message in the log.

commitlog offset i64 | size i32 | tags code i64 (the delivery time in the schedule topic)
"""

from struct import Struct
from types import FunctionType
from typing import Final

from librt.strings import read_i32_be, read_i64_be

from ariane.protocol.native import i64

ENTRY: Final = Struct(">qiq")
ENTRY_SIZE: Final = 20
BLANK_SIZE: Final = 0x7FFFFFFF  # the size in an entry that only fills a gap
BLANK_ENTRY: Final = ENTRY.pack(0, BLANK_SIZE, 0)


def entry_at(entries: bytes, at: i64) -> tuple[i64, i64, i64]:
    """Commitlog offset, size and tags code of the entry that begins at this byte.

    Machine integers are quickest when compiled, `struct` when not.
    """
    if PLAIN:
        found: tuple[int, int, int] = ENTRY.unpack_from(entries, at)
        return found
    return read_i64_be(entries, at), i64(read_i32_be(entries, at + 8)), read_i64_be(entries, at + 12)


PLAIN: Final = isinstance(entry_at, FunctionType)
"""Whether this module is not compiled."""
