"""The hot path: a message gets its offsets and its time, is copied into the log, and is handed to dispatch."""

import logging
from typing import Final

from ariane.env import Clock
from ariane.protocol.units import (
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    Unit,
    unit_size,
)
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
from ariane.store.unit_bytes import batch_bytes, unit_bytes

log = logging.getLogger("ariane.store")

_MAX_PROPERTIES: Final = 32_767
_TRANSACTION: Final = TRANSACTION_ROLLBACK  # both bits
_PREPARED: Final = TRANSACTION_PREPARED
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
        size = unit_size(unit)
        if not self._health.writable or size > self.largest_unit or len(unit.body) > self.max_message_size:
            return self._refuse(unit)
        queue = self._table.find(unit.topic, unit.queue_id)
        if queue is None or len(unit.properties) > _MAX_PROPERTIES:
            return self._refuse(unit)
        try:
            at = self._log.reserve(size)
        except OSError as error:
            return self._no_room(error)
        now = self._now()
        self._place(unit, queue, at, now)
        self._log.write(at, unit_bytes(unit, queue.topic_field))
        self._dispatcher.pending.append(
            Dispatched(queue, unit.queue_offset, at, size, now, unit.sys_flag, unit.properties)
        )
        self._stats.put_count += 1
        self._stats.put_bytes += size
        return PutResult(_OK, at, size, unit.queue_offset, unit.store_time)

    def append_batch(self, units: list[Unit]) -> PutResult:
        """Append messages of one queue, one behind the other, in one write; none of them when one cannot be taken."""
        total = bodies = 0
        queue = self._table.find(units[0].topic, units[0].queue_id) if units else None
        for unit in units:
            if len(unit.properties) > _MAX_PROPERTIES:
                return self._refuse(unit)
            total += unit_size(unit)
            bodies += len(unit.body)
        too_large = total > self.largest_unit or bodies > self.max_message_size
        if queue is None or too_large or not self._health.writable:
            return self._refuse(units[0] if units else None)
        try:
            start = self._log.reserve(total)
        except OSError as error:
            return self._no_room(error)
        self._place_all(units, queue, start)
        self._log.write(start, batch_bytes(units, queue.topic_field))
        self._stats.put_count += len(units)
        self._stats.put_bytes += total
        return PutResult(_OK, start, total, units[0].queue_offset, units[0].store_time, len(units))

    def _place(self, unit: Unit, queue: ConsumeQueue, at: int, now: int) -> None:
        transaction = unit.sys_flag & _TRANSACTION
        if transaction in (_PREPARED, _TRANSACTION):
            unit.queue_offset = 0  # such a message is in no queue
        else:
            unit.queue_offset = queue.next_offset
            queue.next_offset += 1
        unit.physical_offset = at
        unit.store_time = now

    def _place_all(self, units: list[Unit], queue: ConsumeQueue, at: int) -> None:
        """Give units their offsets and their time, and tell dispatch of them; they are written before anybody runs."""
        now = self._now()
        pending = self._dispatcher.pending
        for unit in units:
            size = unit_size(unit)
            self._place(unit, queue, at, now)
            pending.append(Dispatched(queue, unit.queue_offset, at, size, now, unit.sys_flag, unit.properties))
            at += size

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

    def _refuse(self, unit: Unit | None) -> PutResult:
        self._stats.put_failed += 1
        if not self._health.writable:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, count=0)
        if unit is not None and len(unit.properties) > _MAX_PROPERTIES:
            return PutResult(PutStatus.PROPERTIES_TOO_LONG, count=0)
        return PutResult(PutStatus.MESSAGE_ILLEGAL, count=0)

    def _no_room(self, error: OSError) -> PutResult:
        self._stats.put_failed += 1
        self._health.fail("room", f"no room for the next log file: {error}")
        return PutResult(PutStatus.CREATE_FILE_FAILED, count=0)
