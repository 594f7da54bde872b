"""Queue entries and their bytes by the quickest way that there is: machine integers compiled, `struct` plain."""

from types import FunctionType
from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be

from ariane.protocol.native import i32, i64
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


def entry_of(physical: int, size: int, tags_code: int) -> bytes:
    """The bytes of one entry."""
    if PLAIN:
        return ENTRY.pack(physical, size, tags_code)
    writer = BytesWriter()
    write_i64_be(writer, i64(physical))
    write_i32_be(writer, i32(size))
    write_i64_be(writer, i64(tags_code))
    return writer.getvalue()


PLAIN: Final = isinstance(entries_of, FunctionType)
"""Whether this module is not compiled."""
