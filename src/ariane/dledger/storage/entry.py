"""The bytes of DLedger's files, as dledger 0.3.1 writes them.

A data file holds entries, each a header of 48 bytes and a body: one message unit, whose physical offset is that of its
body. A filler ends a file whose remaining space is too short. An index file holds units of
32 bytes, the one of entry i at i * 32.
"""

from struct import Struct
from typing import Final

from librt.strings import BytesWriter

from ariane.errors import ProtocolError
from ariane.protocol.checksum import crc32
from ariane.protocol.units import MAGIC as UNIT_MAGIC
from ariane.protocol.units import decode_unit
from ariane.store.units.reading import END_OF_FILE, NOTHING, UNIT

ENTRY_HEADER: Final = Struct(
    ">iiqqqiiii"
)  # magic, size, index, term, position, channel, chain crc, body crc, body size
_SIZES: Final = Struct(">ii36xi")  # magic, size, body size of a header
INDEX_UNIT: Final = Struct(">iqiqq")  # magic, position, size, index, term
FILLER: Final = Struct(">ii")  # magic, size
MAGIC: Final = 1
FILLER_MAGIC: Final = -1
BODY_CRC_AT: Final = 40
BODY_CRC: Final = Struct(">I")
INDEX_FILE_UNITS: Final = 5 * 1024 * 1024


class EntryHeader:
    """The header of an entry. Apache's nodes write 0 for all checksums; ours write that of the body."""

    __slots__ = ("body_crc", "body_size", "chain_crc", "channel", "index", "position", "size", "term")

    def __init__(
        self,
        size: int,
        index: int,
        term: int,
        position: int,
        channel: int,
        chain_crc: int,
        body_crc: int,
        body_size: int,
    ) -> None:
        self.size = size
        self.index = index
        self.term = term
        self.position = position
        self.channel = channel
        self.chain_crc = chain_crc
        self.body_crc = body_crc
        self.body_size = body_size


def size_at(memory: memoryview, at: int) -> int:
    """The size of the entry at position `at` of a file with its header; 0 when there is none that is consistent."""
    if at + ENTRY_HEADER.size > len(memory):
        return 0
    size: int
    magic, size, body_size = _SIZES.unpack_from(memory, at)
    if magic != MAGIC or body_size <= 0 or body_size + ENTRY_HEADER.size != size or at + size > len(memory):
        return 0
    return size


def header_at(memory: memoryview, at: int) -> EntryHeader | None:
    """The header of the entry at position `at` of a file; None when there is none that is consistent."""
    if not size_at(memory, at):
        return None
    _, size, index, term, position, channel, chain_crc, body_crc, body_size = ENTRY_HEADER.unpack_from(memory, at)
    return EntryHeader(size, index, term, position, channel, chain_crc, body_crc, body_size)


def body_is_whole(header: EntryHeader, body: memoryview) -> bool:
    """Compare the checksum of a body; an entry of an Apache leader has none."""
    return header.body_crc == 0 or crc32(body) == header.body_crc & 0xFFFFFFFF


def unit_is_whole(body: memoryview, physical: int) -> bool | None:
    """Whether a body is the whole unit of this physical offset; None when it was never a unit."""
    magic = int.from_bytes(body[4:8], "big")
    if magic != UNIT_MAGIC:
        return None if magic else False
    try:
        unit = decode_unit(body, check_crc=True)
    except ProtocolError:
        return False
    return unit.size == len(body) and unit.physical_offset == physical


class LedgerFraming:
    """The framing of a ledger's log. `next_index` and `term` are those of the next entry that is appended here."""

    def __init__(self) -> None:
        self.next_index = 0
        self.term = 0
        self.channel = 0
        """The channel in the headers of entries that are appended here; see `configuration`."""

    @property
    def header(self) -> int:
        """Bytes before each unit."""
        return ENTRY_HEADER.size

    def write_header(self, tail: BytesWriter, position: int, size: int) -> None:
        """Write the header of the next entry; its checksum follows when the body is there."""
        tail.write(
            ENTRY_HEADER.pack(
                MAGIC, ENTRY_HEADER.size + size, self.next_index, self.term, position, self.channel, 0, 0, size
            )
        )
        self.next_index += 1

    def filler(self, room: int) -> bytes:
        """The end of a file: first the magic, then the size."""
        return FILLER.pack(FILLER_MAGIC, room)

    def kind_at(self, memory: memoryview, at: int) -> int:
        """Distinguish entries and fillers by their magic."""
        if at + FILLER.size > len(memory):
            return END_OF_FILE
        if FILLER.unpack_from(memory, at)[0] == FILLER_MAGIC:
            return END_OF_FILE
        return UNIT if size_at(memory, at) else NOTHING
