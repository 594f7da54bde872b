"""Writes units into the tail of a log, like `encode_unit` but faster.

Compiled, writing machine integers costs a fifth of `struct`; in plain Python it would cost four times as much.
"""

from struct import Struct
from types import FunctionType
from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from ariane.protocol.native import i16, i32, i64
from ariane.protocol.units import MAGIC

_SIGNED_MAGIC: Final = MAGIC - (1 << 32)
_FIXED: Final = 72 + 2  # all but hosts, body, topic and properties
_START: Final = Struct(">iiiiiqqiq")  # before the born host
_END: Final = Struct(">iqi")  # after the store host
_OWN_START: Final = Struct(">iiiiiqq")  # before the fields that the units of a batch share
_FLAG_AND_TIME: Final = Struct(">iq")  # the first of these, before the born host
_RETRIES: Final = Struct(">iq")  # the last of these, after the store host
_I64: Final = Struct(">q")
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_LOW: Final = 0xFFFFFFFF


def fixed_size(born_host: bytes, store_host: bytes, topic_field: bytes) -> int:
    """The size of a unit without body and properties; `topic_field` is the topic with its length before it."""
    return _FIXED + len(born_host) + len(store_host) + len(topic_field)


def write_unit(
    writer: BytesWriter,
    size: int,
    crc: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical: int,
    sys_flag: int,
    born_time: int,
    born_host: bytes,
    now: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_offset: int,
    body: bytes,
    topic_field: bytes,
    properties: bytes,
) -> None:
    """Write a unit of `size` bytes at its offset, fields in order. The V6 bits of `sys_flag` must be set correctly."""
    if PLAIN:
        writer.write(
            b"".join(
                (
                    _START.pack(
                        size, _SIGNED_MAGIC, crc, queue_id, flag, queue_offset, physical, sys_flag, born_time
                    ),
                    born_host,
                    _I64.pack(now),
                    store_host,
                    _END.pack(reconsume_times, prepared_offset, len(body)),
                    body,
                    topic_field,
                    _I16.pack(len(properties)),
                    properties,
                )
            )
        )  # fmt: skip
        return
    _write_start(writer, size, crc, queue_id, flag, queue_offset, physical)
    write_i32_be(writer, i32(sys_flag))
    write_i64_be(writer, i64(born_time))
    writer.write(born_host)
    write_i64_be(writer, i64(now))
    writer.write(store_host)
    write_i32_be(writer, i32(reconsume_times))
    write_i64_be(writer, i64(prepared_offset))
    _write_end(writer, body, topic_field, properties)


def shared_fields(
    sys_flag: int,
    born_time: int,
    born_host: bytes,
    now: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_offset: int,
) -> bytes:
    """The fields in the middle of a unit, which all units of a batch share."""
    return b"".join(
        (
            _FLAG_AND_TIME.pack(sys_flag, born_time),
            born_host,
            _I64.pack(now),
            store_host,
            _RETRIES.pack(reconsume_times, prepared_offset),
        )
    )


def write_with_shared(
    writer: BytesWriter,
    size: int,
    crc: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical: int,
    shared: bytes,
    body: bytes,
    topic_field: bytes,
    properties: bytes,
) -> None:
    """Like `write_unit`, with `shared_fields` made before."""
    if PLAIN:
        start = _OWN_START.pack(size, _SIGNED_MAGIC, crc, queue_id, flag, queue_offset, physical)
        length, end = _I32.pack(len(body)), _I16.pack(len(properties))
        writer.write(b"".join((start, shared, length, body, topic_field, end, properties)))
        return
    _write_start(writer, size, crc, queue_id, flag, queue_offset, physical)
    writer.write(shared)
    _write_end(writer, body, topic_field, properties)


def _write_start(
    writer: BytesWriter, size: i64, crc: i64, queue_id: i64, flag: int, queue_offset: int, physical: int
) -> None:
    write_i64_be(writer, size << 32 | MAGIC)
    write_i64_be(writer, crc << 32 | queue_id & _LOW)
    write_i32_be(writer, i32(flag))
    write_i64_be(writer, i64(queue_offset))
    write_i64_be(writer, i64(physical))


def _write_end(writer: BytesWriter, body: bytes, topic_field: bytes, properties: bytes) -> None:
    write_i32_be(writer, i32(len(body)))
    writer.write(body)
    writer.write(topic_field)
    write_i16_be(writer, i16(len(properties)))
    writer.write(properties)


PLAIN: Final = isinstance(write_unit, FunctionType)
"""Whether this module is not compiled."""
