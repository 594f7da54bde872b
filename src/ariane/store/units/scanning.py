"""Walks over runs of ordinary units in log bytes, for the dispatch of bytes that a master or recovery put into the log.

`read_unit` is the general way. The scan stops before a unit that it does not know (an IPv6 host, a filler, damage) and
leaves that to it.
"""

from abc import ABC, abstractmethod
from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be

from ariane.protocol.fast.matching import stands_at
from ariane.protocol.native import i64
from ariane.protocol.units import BORN_HOST_V6, MAGIC, STORE_HOST_V6, SYS_FLAG_AT, V4_BODY_AT
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.table import QueueTable
from ariane.store.units.marks import Marks
from ariane.store.units.reading import Dispatched

_V6_FLAGS: Final = BORN_HOST_V6 | STORE_HOST_V6
_SIGNED_MAGIC: Final = MAGIC - (1 << 32)
# Positions in a unit whose hosts are IPv4; `V4_CHECK` has the same fields.
_QUEUE_ID_AT: Final = 12
_QUEUE_OFFSET_AT: Final = 20
_PLACE_AT: Final = 28
_STORE_TIME_AT: Final = 56
_KNOWN: Final = 16  # queues of a topic that are found without a search
_BODY_LENGTH_AT: Final = V4_BODY_AT - 4


class UnitScan(ABC):
    """Scans for one table of queues. Neighbours mostly share topic and form of properties: the last ones are kept."""

    def __init__(self, table: QueueTable) -> None:
        self.table = table
        self.marks = Marks(b"")
        """They describe the properties of the unit that `take` gets."""
        self._topic_field = b""  # length and name, as in a unit
        self._queues: list[ConsumeQueue | None] = []  # the first of that topic, by id

    @abstractmethod
    def take(
        self,
        queue: ConsumeQueue,
        queue_offset: i64,
        physical: i64,
        size: i64,
        store_time: i64,
        sys_flag: i64,
        data: bytes,
        start: i64,
        stop: i64,
    ) -> bool:
        """Take a unit, whose properties are `data[start:stop]`. False ends the scan before it."""

    def scan(self, data: bytes, first: i64, end: i64, physical: i64, most: i64) -> int:
        """Take up to `most` units of `data[first:end]`, which begins at the log offset `physical`; returns their end.

        REQUIRES: `end` is not beyond `data`.
        """
        at = first
        start = physical - first
        self._queues = [None] * _KNOWN  # queues may have been dropped since
        self._topic_field = b""
        while at + V4_BODY_AT <= end and most > 0:
            size = i64(read_i32_be(data, at))
            unit_end = at + size
            sys_flag = i64(read_i32_be(data, at + SYS_FLAG_AT))
            if (
                read_i32_be(data, at + 4) != _SIGNED_MAGIC
                or size < V4_BODY_AT
                or unit_end > end
                or sys_flag & _V6_FLAGS
                or read_i64_be(data, at + _PLACE_AT) != start + at
            ):
                break
            body_length = i64(read_i32_be(data, at + _BODY_LENGTH_AT))
            topic_at = at + V4_BODY_AT + body_length + 1
            if body_length < 0 or topic_at + 2 > unit_end:
                break
            topic_end = topic_at + data[topic_at - 1]
            if topic_end + 2 > unit_end or topic_end + 2 + i64(read_i16_be(data, topic_end)) != unit_end:
                break
            queue_id = i64(read_i32_be(data, at + _QUEUE_ID_AT))
            queue = self._queue(data, topic_at, topic_end, queue_id)
            if queue is None:
                break
            if not self.marks.fit_part(data, topic_end + 2, unit_end):
                self.marks = Marks(data[topic_end + 2 : unit_end])
            queue_offset = read_i64_be(data, at + _QUEUE_OFFSET_AT)
            store_time = read_i64_be(data, at + _STORE_TIME_AT)
            if not self.take(
                queue, queue_offset, start + at, size, store_time, sys_flag, data, topic_end + 2, unit_end
            ):
                break
            at = unit_end
            most -= 1
        return start + at

    def _queue(self, data: bytes, topic_at: i64, topic_end: i64, queue_id: i64) -> ConsumeQueue | None:
        if topic_end - topic_at + 1 == len(self._topic_field) and stands_at(self._topic_field, data, topic_at - 1):
            known = self._queues[queue_id] if 0 <= queue_id < _KNOWN else None
            if known is not None:
                return known
        else:
            self._topic_field = data[topic_at - 1 : topic_end]
            self._queues = [None] * _KNOWN
        topic = data[topic_at:topic_end]
        queue = None if 0 in topic else self.table.find(topic, queue_id)
        if queue is not None and queue_id < _KNOWN:
            self._queues[queue_id] = queue
        return queue


class UnitReader(UnitScan):
    """Collects the units for dispatch in `batch`."""

    def __init__(self, table: QueueTable) -> None:
        super().__init__(table)
        self.batch: list[Dispatched] = []

    def take(
        self,
        queue: ConsumeQueue,
        queue_offset: i64,
        physical: i64,
        size: i64,
        store_time: i64,
        sys_flag: i64,
        data: bytes,
        start: i64,
        stop: i64,
    ) -> bool:
        properties = data[start:stop]
        self.batch.append(Dispatched(queue, queue_offset, physical, size, store_time, sys_flag, properties, self.marks))
        return True
