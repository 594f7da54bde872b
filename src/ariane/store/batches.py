"""Turns the messages of a batch request into units of the log."""

from typing import Final

from librt.strings import read_i32_be

from ariane.protocol.batch import check_batch
from ariane.protocol.checksum import crc32
from ariane.protocol.native import i64
from ariane.protocol.units import Unit, host_flags
from ariane.store.log.log import Log
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.units.marks import Marks
from ariane.store.units.reading import Dispatched
from ariane.store.units.writing import fixed_size, shared_fields, write_with_shared

MAX_PROPERTIES: Final = 32_767
_BODY_AT: Final = 20  # in a message of a batch
_CRC: Final = 0x7FFFFFFF
_SEPARATOR: Final = b"\x02"


class Batch:
    """The messages in the body of `unit`. They share its other fields; its properties are appended to each one's own.

    ProtocolError when the body is no batch.
    """

    def __init__(self, unit: Unit, queue: ConsumeQueue) -> None:
        self._unit = unit
        self._queue = queue
        self._fixed: i64 = fixed_size(unit.born_host, unit.store_host, queue.topic_field)
        self.count = check_batch(unit.body)
        self.size = 0
        """Bytes of all units."""
        self.bodies = 0
        """Bytes of all bodies."""
        self.fits = True
        """Whether the properties of every message fit."""
        self._measure()

    def _measure(self) -> None:
        raw = self._unit.body
        shared: i64 = len(self._unit.properties)
        size: i64 = 0
        bodies: i64 = 0
        at: i64 = 0
        while at < len(raw):
            end = at + i64(read_i32_be(raw, at))
            body = i64(read_i32_be(raw, at + 16))
            properties = end - at - _BODY_AT - 2 - body
            if shared and properties and raw[end - 1] != 2:
                properties += 1
            properties += shared
            if properties > MAX_PROPERTIES:
                self.fits = False
            bodies += body
            size += self._fixed + body + properties
            at = end
        self.size = size
        self.bodies = bodies

    def write(self, log: Log, now: int, pending: list[Dispatched]) -> list[int]:
        """Append the units to the log and to `pending`; returns the physical offset of each."""
        unit, queue = self._unit, self._queue
        raw, ending = unit.body, unit.properties
        separated = _SEPARATOR + ending
        sys_flag = host_flags(unit.sys_flag, unit.born_host, unit.store_host)
        shared = shared_fields(
            sys_flag, unit.born_time, unit.born_host, now, unit.store_host, unit.reconsume_times, unit.prepared_offset
        )
        has_headers = log.header > 0  # without them one reservation is enough for all
        place: i64 = 0 if has_headers else log.reserve(self.size)
        marks: Marks | None = None
        places: list[int] = []
        at: i64 = 0
        while at < len(raw):
            end = at + i64(read_i32_be(raw, at))
            middle = at + _BODY_AT + i64(read_i32_be(raw, at + 16))
            body = raw[at + _BODY_AT : middle]
            properties = raw[middle + 2 : end]
            if ending:
                properties = properties + (ending if not properties or properties[-1] == 2 else separated)
            if marks is None or not marks.fit(properties):
                marks = Marks(properties)
            offset = queue.next_offset
            queue.next_offset = offset + 1
            size = self._fixed + len(body) + len(properties)
            if has_headers:
                place = log.reserve(size)
            write_with_shared(
                log.tail, size, crc32(body) & _CRC, unit.queue_id, read_i32_be(raw, at + 12), offset, place, shared,
                body, queue.topic_field, properties,
            )  # fmt: skip
            pending.append(Dispatched(queue, offset, place, size, now, sys_flag, properties, marks))
            places.append(place)
            if not has_headers:
                place += size
            at = end
        return places
