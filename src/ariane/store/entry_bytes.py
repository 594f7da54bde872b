"""Queue entries taken out of their bytes by the quickest way that there is: machine reads compiled, `struct` plain."""

from types import FunctionType
from typing import Final

from librt.strings import read_i32_be, read_i64_be

from ariane.protocol.native import i64
from ariane.store.layout import ENTRY, ENTRY_SIZE


def entries_of(raw: bytes) -> list[tuple[int, int, int]]:
    """Commitlog offset, size and tags code of each entry."""
    if PLAIN:
        return list(ENTRY.iter_unpack(raw))
    found: list[tuple[int, int, int]] = []
    at: i64 = 0
    while at + ENTRY_SIZE <= len(raw):
        found.append((read_i64_be(raw, at), read_i32_be(raw, at + 8), read_i64_be(raw, at + 12)))
        at += ENTRY_SIZE
    return found


PLAIN: Final = isinstance(entries_of, FunctionType)
"""Whether this module is not compiled."""
