"""The message unit: the form of a message in the commitlog and in responses to pulls.

    total i32 | magic u32 | body crc u32 | queue id i32 | flag i32 | queue offset i64 | physical offset i64
    | sys flag i32 | born time i64 | born host 8 or 20 | store time i64 | store host 8 or 20 | reconsume times i32
    | prepared transaction offset i64 | body (i32 length) | topic (u8 length) | properties (i16 length)

A host is the raw address (4 bytes, or 16 under the V6 sys flags) and an i32 port.
"""

from struct import Struct
from struct import error as StructError
from typing import Final

from ariane.errors import ProtocolError
from ariane.protocol.checksum import crc32

MAGIC: Final = 0xDAA320A7
BLANK_MAGIC: Final = 0xCBD43194

COMPRESSED: Final = 0x1  # bits of the sys flag
MULTI_TAGS: Final = 0x2
TRANSACTION_NOT: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC  # both bits of a transaction's state
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
COMPRESSION_TYPE: Final = 0x700  # of 5.x clients: 0 or 3 zlib, 1 lz4, 2 zstd
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300

BLANK: Final = Struct(">iI")  # size to the end of the file, BLANK_MAGIC
UNIT_V4: Final = Struct(">iIIiiqqiq8sq8siqi")  # the fixed part when both hosts are IPv4, up to the length of the body
# the fields of the fixed part that a reader of a log checks: size, magic, body crc, queue id, queue offset, physical
# offset, sys flag, store time and body length
V4_CHECK: Final = Struct(">iIIi4xqqi8x8xq8x4x8xi")
_UNIT_START: Final = Struct(">iIIiiqqiq")  # the fixed part before the born host
_UNIT_END: Final = Struct(">iqi")  # reconsume times, prepared offset, body length
_I64: Final = Struct(">q")
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_V4_SIZE: Final = UNIT_V4.size
MIN_UNIT: Final = _V4_SIZE + 1 + 2

PREPARED_OFFSET_AT: Final = 76  # in a unit with two IPv4 hosts
QUEUE_ID_AT: Final = 12
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_HOST_AT: Final = 48
STORE_HOST_AT: Final = 64  # in a unit with two IPv4 hosts
V4_BODY_AT: Final = 88  # in a unit with two IPv4 hosts


def body_crc(body: bytes | memoryview) -> int:
    """The checksum that RocketMQ stores: CRC-32 without its highest bit."""
    return crc32(body) & 0x7FFFFFFF


def body_bounds(unit: memoryview) -> tuple[int, int]:
    """Where the body of a whole unit begins and ends."""
    start = V4_BODY_AT
    sys_flag = _I32.unpack_from(unit, SYS_FLAG_AT)[0]
    if sys_flag & (BORN_HOST_V6 | STORE_HOST_V6):
        start += 12 * bool(sys_flag & BORN_HOST_V6) + 12 * bool(sys_flag & STORE_HOST_V6)
    return start, start + _I32.unpack_from(unit, start - 4)[0]


def stored_properties(unit: memoryview) -> bytes:
    """The properties of a whole unit, as they are stored."""
    topic_length_at = body_bounds(unit)[1]
    return bytes(unit[topic_length_at + 1 + unit[topic_length_at] + 2 :])


class Unit:
    """A decoded message unit. Hosts and properties stay as stored: `host_text` and `decode_properties` read them."""

    __slots__ = (
        "body",
        "body_crc",
        "born_host",
        "born_time",
        "flag",
        "physical_offset",
        "prepared_offset",
        "properties",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "size",
        "store_host",
        "store_time",
        "sys_flag",
        "topic",
    )

    def __init__(
        self,
        topic: bytes,
        body: bytes,
        properties: bytes = b"",
        *,
        queue_id: int = 0,
        flag: int = 0,
        queue_offset: int = 0,
        physical_offset: int = 0,
        sys_flag: int = 0,
        born_time: int = 0,
        born_host: bytes = b"\0" * 8,
        store_time: int = 0,
        store_host: bytes = b"\0" * 8,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        size: int = 0,
        crc: int = -1,
    ) -> None:
        self.topic = topic
        self.body = body
        self.properties = properties
        self.queue_id = queue_id
        self.flag = flag
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.sys_flag = sys_flag
        self.born_time = born_time
        self.born_host = born_host
        self.store_time = store_time
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_offset = prepared_offset
        self.size = size
        self.body_crc = crc if crc >= 0 else body_crc(body)


def unit_size(unit: Unit) -> int:
    """The number of bytes that `encode_unit` returns."""
    return (
        _V4_SIZE - 16 + 3 + len(unit.born_host) + len(unit.store_host)
        + len(unit.body) + len(unit.topic) + len(unit.properties)
    )  # fmt: skip


def encode_unit(u: Unit) -> bytes:
    """Encode a unit. The V6 bits of its sys flag are set according to its hosts."""
    sys_flag = host_flags(u.sys_flag, u.born_host, u.store_host)
    size = unit_size(u)
    start = _UNIT_START.pack(
        size, MAGIC, u.body_crc, u.queue_id, u.flag, u.queue_offset, u.physical_offset, sys_flag, u.born_time
    )
    end = _UNIT_END.pack(u.reconsume_times, u.prepared_offset, len(u.body))
    return b"".join(
        (
            start, u.born_host, _I64.pack(u.store_time), u.store_host, end,
            u.body, bytes((len(u.topic),)), u.topic, _I16.pack(len(u.properties)), u.properties,
        )
    )  # fmt: skip


def host_flags(sys_flag: int, born_host: bytes, store_host: bytes) -> int:
    """`sys_flag` with its V6 bits set or cleared according to the length of the hosts."""
    sys_flag &= ~(BORN_HOST_V6 | STORE_HOST_V6)
    if len(born_host) == 20:
        sys_flag |= BORN_HOST_V6
    if len(store_host) == 20:
        sys_flag |= STORE_HOST_V6
    return sys_flag


def decode_unit(buffer: bytes | memoryview, at: int = 0, *, check_crc: bool = False) -> Unit:
    """Decode the unit at `at`; ProtocolError when there is no whole, well-formed unit."""
    try:
        return _decode_unit(buffer, at, check_crc)
    except (StructError, IndexError) as error:
        raise ProtocolError(f"torn message unit at {at}: {error}") from None


def _decode_unit(buffer: bytes | memoryview, at: int, check_crc: bool) -> Unit:
    size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born_time = _UNIT_START.unpack_from(buffer, at)
    if magic != MAGIC:
        raise ProtocolError(f"no message unit at {at}: magic {magic:#x}")
    if size < MIN_UNIT or at + size > len(buffer):
        raise ProtocolError(f"message unit at {at} says {size} bytes, {len(buffer) - at} are there")
    born_at = at + _UNIT_START.size
    born_end = born_at + (20 if sys_flag & BORN_HOST_V6 else 8)
    store_at = born_end + 8
    store_end = store_at + (20 if sys_flag & STORE_HOST_V6 else 8)
    reconsume_times, prepared, body_length = _UNIT_END.unpack_from(buffer, store_end)
    body_at = store_end + _UNIT_END.size
    topic_at = body_at + body_length + 1
    if body_length < 0 or topic_at > at + size:
        raise ProtocolError(f"message unit at {at}: a body of {body_length} bytes does not fit")
    topic_end = topic_at + buffer[topic_at - 1]
    (properties_length,) = _I16.unpack_from(buffer, topic_end)
    if properties_length < 0 or topic_end + 2 + properties_length != at + size:
        raise ProtocolError(f"message unit at {at}: its parts do not add up to {size} bytes")
    body = bytes(buffer[body_at : body_at + body_length])
    if check_crc and body_crc(body) != crc:
        raise ProtocolError(f"message unit at {at}: the body does not match its checksum")
    return Unit(
        bytes(buffer[topic_at:topic_end]),
        body,
        bytes(buffer[topic_end + 2 : at + size]),
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=physical,
        sys_flag=sys_flag,
        born_time=born_time,
        born_host=bytes(buffer[born_at:born_end]),
        store_time=_I64.unpack_from(buffer, born_end)[0],
        store_host=bytes(buffer[store_at:store_end]),
        reconsume_times=reconsume_times,
        prepared_offset=prepared,
        size=size,
        crc=crc,
    )


def decode_units(buffer: bytes | memoryview) -> list[Unit]:
    """Decode all units of the body of a response to a pull."""
    units: list[Unit] = []
    at = 0
    while at < len(buffer):
        unit = decode_unit(buffer, at)
        units.append(unit)
        at += unit.size
    return units
