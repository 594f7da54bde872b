"""Queue entries by the quickest way that there is: machine integers compiled, `struct` plain."""

from types import FunctionType
from typing import Final

from librt.strings import read_i32_be, read_i64_be

from ariane.protocol.native import i64
from ariane.store.layout import ENTRY, ENTRY_SIZE


class Entries:
    """A cursor over entries: `next` steps to one, then the fields are its own."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at: i64 = 0
        self.physical: i64 = 0
        self.size: i64 = 0
        self.tags_code: i64 = 0

    def next(self) -> bool:
        """Go on to the next entry; False when there is none."""
        at = self._at
        if at + ENTRY_SIZE > len(self._raw):
            return False
        self._at = at + ENTRY_SIZE
        if PLAIN:
            self._unpack(at)
            return True
        self.physical = read_i64_be(self._raw, at)
        self.size = i64(read_i32_be(self._raw, at + 8))
        self.tags_code = read_i64_be(self._raw, at + 12)
        return True

    def _unpack(self, at: int) -> None:
        self.physical, self.size, self.tags_code = ENTRY.unpack_from(self._raw, at)


PLAIN: Final = isinstance(Entries._unpack, FunctionType)
"""Whether this module is not compiled."""
