"""Queue entries by the quickest way that there is: machine integers compiled, `struct` plain."""

from types import FunctionType
from typing import Final

from librt.strings import read_i32_be, read_i64_be

from ariane.protocol.native import i64
from ariane.store.layout import ENTRY


def entry_at(entries: bytes, at: i64) -> tuple[i64, i64, i64]:
    """Commitlog offset, size and tags code of the entry that begins at this byte."""
    if PLAIN:
        found: tuple[int, int, int] = ENTRY.unpack_from(entries, at)
        return found
    return read_i64_be(entries, at), i64(read_i32_be(entries, at + 8)), read_i64_be(entries, at + 12)


PLAIN: Final = isinstance(entry_at, FunctionType)
"""Whether this module is not compiled."""
