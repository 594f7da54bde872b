"""The hot path: a message gets its offsets and its time, is copied into the log, and is handed to dispatch."""

import logging
from typing import Final

from ariane.env import Clock
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, Unit
from ariane.store.batches import MAX_PROPERTIES, Batch
from ariane.store.commitlog import BLANK_LENGTH
from ariane.store.consumequeue import ConsumeQueue
from ariane.store.dispatch import Dispatcher
from ariane.store.health import Health
from ariane.store.log import Log
from ariane.store.options import StoreOptions
from ariane.store.queues import QueueTable
from ariane.store.results import PutResult, PutStatus
from ariane.store.scan import Dispatched
from ariane.store.stats import StoreStats
from ariane.store.unit_bytes import UnitWriter

log = logging.getLogger("ariane.store")

_TRANSACTION: Final = TRANSACTION_ROLLBACK  # both bits
_COMMIT: Final = TRANSACTION_COMMIT
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
        stats: StoreStats,
        options: StoreOptions,
    ) -> None:
        self.last_time = 0
        self.moment = 0
        """The time that messages get while it is not 0: all of one read came at the same time."""
        self.time_went_back = False
        self.largest_unit = options.commitlog_file_size - BLANK_LENGTH
        self.max_message_size = options.max_message_size
        self._log = source
        self._table = table
        self._dispatcher = dispatcher
        self._clock = clock
        self._health = health
        self._stats = stats

    def append(self, unit: Unit) -> PutResult:
        """Append one message."""
        if not self._health.writable or len(unit.body) > self.max_message_size:
            return self._refuse(unit)
        queue = self._table.find(unit.topic, unit.queue_id)
        if queue is None or len(unit.properties) > MAX_PROPERTIES:
            return self._refuse(unit)
        writer = UnitWriter(unit, queue.topic_field)
        size = writer.fixed + len(unit.body) + len(unit.properties)
        if size > self.largest_unit:
            return self._refuse(unit)
        try:
            at = self._log.reserve(size)
        except OSError as error:
            return self._no_room(error)
        now = self._now()
        before = queue.next_offset
        self._place(unit, queue, at, now)
        offset = unit.queue_offset
        try:
            writer.write(self._log.tail, unit.flag, unit.body, unit.body_crc, unit.properties, offset, at, now)
        except BaseException:
            self._take_back(at, queue, before, len(self._dispatcher.pending))
            raise
        self._dispatcher.pending.append(Dispatched(queue, offset, at, size, now, unit.sys_flag, unit.properties))
        self._stats.put_count += 1
        self._stats.put_bytes += size
        return PutResult(_OK, at, size, offset, now)

    def append_batch(self, unit: Unit) -> PutResult:
        """Append the messages of a batch, one behind the other; none of them when one cannot be taken."""
        queue = self._table.find(unit.topic, unit.queue_id)
        if queue is None or not self._health.writable:
            return self._refuse(unit)
        batch = Batch(unit, queue)
        if not batch.fits:
            return self._refuse(None, PutStatus.PROPERTIES_TOO_LONG)
        if not batch.count or batch.size > self.largest_unit or batch.bodies > self.max_message_size:
            return self._refuse(None)
        try:
            at = self._log.reserve(batch.size)
        except OSError as error:
            return self._no_room(error)
        now = self._now()
        first = queue.next_offset
        pending = len(self._dispatcher.pending)
        try:
            places = batch.write(self._log.tail, at, now, self._dispatcher.pending)
        except BaseException:
            self._take_back(at, queue, first, pending)
            raise
        self._stats.put_count += batch.count
        self._stats.put_bytes += batch.size
        return PutResult(_OK, at, batch.size, first, now, batch.count, places)

    def _take_back(self, at: int, queue: ConsumeQueue, next_offset: int, pending: int) -> None:
        """A message could not be put into bytes: let everything be as before it."""
        self._log.cancel(at)
        queue.next_offset = next_offset
        del self._dispatcher.pending[pending:]

    def _place(self, unit: Unit, queue: ConsumeQueue, at: int, now: int) -> None:
        transaction = unit.sys_flag & _TRANSACTION
        if transaction and transaction != _COMMIT:
            unit.queue_offset = 0  # such a message is in no queue
        else:
            unit.queue_offset = queue.next_offset
            queue.next_offset += 1
        unit.physical_offset = at
        unit.store_time = now

    def _now(self) -> int:
        if self.moment:
            return self.moment
        return self.ask_time()

    def ask_time(self) -> int:
        """The clock's time, which becomes that of the newest message."""
        now = self._clock.now_ms()
        if now < self.last_time:
            self.time_went_back = True
        self.last_time = now
        return now

    def _refuse(self, unit: Unit | None, status: PutStatus = PutStatus.MESSAGE_ILLEGAL) -> PutResult:
        self._stats.put_failed += 1
        if not self._health.writable:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, count=0)
        if unit is not None and len(unit.properties) > MAX_PROPERTIES:
            return PutResult(PutStatus.PROPERTIES_TOO_LONG, count=0)
        return PutResult(status, count=0)

    def _no_room(self, error: OSError) -> PutResult:
        self._stats.put_failed += 1
        self._health.fail("room", f"no room for the next log file: {error}")
        return PutResult(PutStatus.CREATE_FILE_FAILED, count=0)
