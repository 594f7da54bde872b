"""The bytes of placed units, as `encode_unit` makes them, by the quickest way that there is.

Compiled, a writer of machine integers costs a fifth of `struct`; in plain Python it would cost four times as much.
"""

from struct import Struct
from types import FunctionType
from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from ariane.protocol.native import i16, i32, i64
from ariane.protocol.units import MAGIC, Unit, host_flags

_SIGNED_MAGIC: Final = MAGIC - (1 << 32)
_FIXED: Final = 72 + 2  # all but hosts, body, topic and properties
_START: Final = Struct(">iiiiiqqiq")  # before the born host
_END: Final = Struct(">iqi")  # behind the store host
_I64: Final = Struct(">q")
_I16: Final = Struct(">h")


class UnitWriter:
    """Writes units that share everything but what `write` is given."""

    def __init__(self, unit: Unit, topic_field: bytes) -> None:
        """`topic_field` is the topic of `unit` behind the byte that tells its length."""
        self.fixed: i64 = _FIXED + len(unit.born_host) + len(unit.store_host) + len(topic_field)
        """The bytes of a unit beside its body and its properties."""
        self._topic_field = topic_field
        self._queue_id: i32 = i32(unit.queue_id)
        self._sys_flag: i32 = i32(host_flags(unit.sys_flag, unit.born_host, unit.store_host))
        self._born_time: i64 = unit.born_time
        self._born_host = unit.born_host
        self._store_host = unit.store_host
        self._reconsume_times: i32 = i32(unit.reconsume_times)
        self._prepared_offset: i64 = unit.prepared_offset

    def write(
        self,
        writer: BytesWriter,
        flag: int,
        body: bytes,
        crc: int,
        properties: bytes,
        queue_offset: int,
        physical: int,
        now: int,
    ) -> None:
        """One unit at its place."""
        if PLAIN:
            size = self.fixed + len(body) + len(properties)
            writer.write(
                b"".join(
                    (
                        _START.pack(
                            size, _SIGNED_MAGIC, crc, self._queue_id, flag, queue_offset, physical, self._sys_flag,
                            self._born_time,
                        ),
                        self._born_host,
                        _I64.pack(now),
                        self._store_host,
                        _END.pack(self._reconsume_times, self._prepared_offset, len(body)),
                        body,
                        self._topic_field,
                        _I16.pack(len(properties)),
                        properties,
                    )
                )
            )  # fmt: skip
            return
        write_i32_be(writer, i32(self.fixed + len(body) + len(properties)))
        write_i32_be(writer, i32(_SIGNED_MAGIC))
        write_i32_be(writer, i32(crc))
        write_i32_be(writer, self._queue_id)
        write_i32_be(writer, i32(flag))
        write_i64_be(writer, i64(queue_offset))
        write_i64_be(writer, i64(physical))
        write_i32_be(writer, self._sys_flag)
        write_i64_be(writer, self._born_time)
        writer.write(self._born_host)
        write_i64_be(writer, i64(now))
        writer.write(self._store_host)
        write_i32_be(writer, self._reconsume_times)
        write_i64_be(writer, self._prepared_offset)
        write_i32_be(writer, i32(len(body)))
        writer.write(body)
        writer.write(self._topic_field)
        write_i16_be(writer, i16(len(properties)))
        writer.write(properties)


PLAIN: Final = isinstance(UnitWriter.write, FunctionType)
"""Whether this module is not compiled."""
