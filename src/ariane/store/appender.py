"""The hot path of a send: assigns offsets and store time, writes the unit to the log, queues it for dispatch."""

import logging
from typing import Final

from ariane.env import Clock
from ariane.protocol.units import Unit, host_flags
from ariane.store.batches import MAX_PROPERTIES, Batch
from ariane.store.dispatch import Dispatcher
from ariane.store.health import Health
from ariane.store.log.log import Log
from ariane.store.options import StoreOptions
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.table import QueueTable
from ariane.store.results import PutResult, PutStatus, StoreCounters
from ariane.store.units.marks import Marks
from ariane.store.units.reading import Dispatched, is_in_queue
from ariane.store.units.writing import fixed_size, write_unit

log = logging.getLogger("ariane.store")

_OK: Final = PutStatus.OK


class Appender:
    """Appends units. `last_time` is the store time of the newest message."""

    def __init__(
        self,
        source: Log,
        table: QueueTable,
        dispatcher: Dispatcher,
        clock: Clock,
        health: Health,
        stats: StoreCounters,
        options: StoreOptions,
    ) -> None:
        self.last_time = 0
        self.last_at = -1  # physical offset of the newest message
        self.moment = 0
        """The store time of all messages of one socket read; 0 between reads."""
        self.time_went_back = False
        self.largest_unit = source.largest_unit
        self.max_message_size = options.max_message_size
        self._log = source
        self._table = table
        self._dispatcher = dispatcher
        self._clock = clock
        self._health = health
        self._stats = stats

    def append(self, unit: Unit, *, copy: bool = False) -> PutResult:
        """Append one message."""
        queue = self._table.find(unit.topic, unit.queue_id) if self._health.accepts else None
        if queue is None:
            return self._refuse(PutStatus.MESSAGE_ILLEGAL)
        result = self.put(queue, unit, Marks(unit.properties), copy)
        unit.queue_offset = result.queue_offset
        unit.physical_offset = result.physical_offset
        unit.store_time = result.store_time
        return result

    def put(self, queue: ConsumeQueue, unit: Unit, marks: Marks, copy: bool = False) -> PutResult:
        """Append a message to a queue; `marks` describe its properties. `max_message_size` does not apply to copies."""
        body, properties = unit.body, unit.properties
        born_host, store_host = unit.born_host, unit.store_host
        if len(properties) > MAX_PROPERTIES:
            return self._refuse(PutStatus.PROPERTIES_TOO_LONG)
        size = fixed_size(born_host, store_host, queue.topic_field) + len(body) + len(properties)
        if not self._health.accepts or size > self.largest_unit or (len(body) > self.max_message_size and not copy):
            return self._refuse(PutStatus.MESSAGE_ILLEGAL)
        try:
            at = self._log.reserve(size)
        except OSError as error:
            return self._no_room(error)
        now = self.moment or self.ask_time()
        in_queue = is_in_queue(unit.sys_flag)
        offset = queue.next_offset if in_queue else 0
        sys_flag = host_flags(unit.sys_flag, born_host, store_host)
        try:
            write_unit(
                self._log.tail, size, unit.body_crc, queue.queue_id, unit.flag, offset, at, sys_flag, unit.born_time,
                born_host, now, store_host, unit.reconsume_times, unit.prepared_offset, body, queue.topic_field,
                properties,
            )  # fmt: skip
        except BaseException:  # not encodable: undo the reservation
            self._log.cancel(at)
            raise
        self.last_at = at
        if in_queue:
            queue.next_offset = offset + 1
        self._dispatcher.pending.append(Dispatched(queue, offset, at, size, now, sys_flag, properties, marks))
        self._stats.put_count += 1
        self._stats.put_bytes += size
        return PutResult(_OK, at, size, offset, now)

    def append_record(self, unit: Unit) -> PutResult:
        """Append a message that is in no queue, for the broker's own use, also while messages are refused."""
        assert not is_in_queue(unit.sys_flag)
        queue = self._table.find(unit.topic, unit.queue_id)
        assert queue is not None
        size = fixed_size(unit.born_host, unit.store_host, queue.topic_field) + len(unit.body) + len(unit.properties)
        if not self._health.writable or size > self.largest_unit:
            return self._refuse(PutStatus.MESSAGE_ILLEGAL)
        try:
            at = self._log.reserve(size)
        except OSError as error:
            return self._no_room(error)
        now = self.moment or self.ask_time()
        sys_flag = host_flags(unit.sys_flag, unit.born_host, unit.store_host)
        write_unit(
            self._log.tail, size, unit.body_crc, unit.queue_id, unit.flag, 0, at, sys_flag, unit.born_time,
            unit.born_host, now, unit.store_host, 0, 0, unit.body, queue.topic_field, unit.properties,
        )  # fmt: skip
        self.last_at = at
        marks = Marks(unit.properties)
        self._dispatcher.pending.append(Dispatched(queue, 0, at, size, now, sys_flag, unit.properties, marks))
        return PutResult(_OK, at, size, 0, now)

    def append_batch(self, unit: Unit) -> PutResult:
        """Append the messages of a batch contiguously; none of them when one is illegal."""
        queue = self._table.find(unit.topic, unit.queue_id)
        if queue is None or not self._health.accepts:
            return self._refuse(PutStatus.MESSAGE_ILLEGAL)
        batch = Batch(unit, queue)
        if not batch.fits:
            return self._refuse(PutStatus.PROPERTIES_TOO_LONG)
        together = batch.size + self._log.header * (batch.count - 1)
        if not batch.count or together > self.largest_unit or batch.bodies > self.max_message_size:
            return self._refuse(PutStatus.MESSAGE_ILLEGAL)
        try:
            self._log.make_room(batch.size, batch.count)
        except OSError as error:
            return self._no_room(error)
        now = self.moment or self.ask_time()
        first = queue.next_offset
        at = self._log.written + self._log.header
        pending = len(self._dispatcher.pending)
        try:
            places = batch.write(self._log, now, self._dispatcher.pending)
        except BaseException:
            self._log.cancel(at)
            queue.next_offset = first
            del self._dispatcher.pending[pending:]
            raise
        self.last_at = places[-1]
        self._stats.put_count += batch.count
        self._stats.put_bytes += batch.size
        return PutResult(_OK, at, batch.size, first, now, batch.count, places, self._log.written)

    def ask_time(self) -> int:
        """Read the clock; the result is the store time of the newest message."""
        now = self._clock.now_ms()
        if now < self.last_time:
            self.time_went_back = True
        self.last_time = now
        return now

    def _refuse(self, status: PutStatus) -> PutResult:
        self._stats.put_failed += 1
        return PutResult(status if self._health.accepts else PutStatus.SERVICE_NOT_AVAILABLE, count=0)

    def _no_room(self, error: OSError) -> PutResult:
        self._stats.put_failed += 1
        self._health.fail("room", f"no room for the next log file: {error}")
        return PutResult(PutStatus.CREATE_FILE_FAILED, count=0)
