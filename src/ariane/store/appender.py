"""The hot path: a message gets its offsets and its time, is copied into the log, and is handed to dispatch."""

import logging
from typing import Final

from ariane.env import Clock
from ariane.protocol.units import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, Unit, encode_unit, unit_size
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

log = logging.getLogger("ariane.store")

_MAX_TOPIC: Final = 127
_MAX_PROPERTIES: Final = 32_767
_BESIDE_BODY: Final = 64 << 10  # room for everything but the body, beside max_message_size
_TRANSACTION: Final = TRANSACTION_ROLLBACK  # both bits


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
        status = self.check(unit)
        if status is not PutStatus.OK:
            return self._refuse(status)
        queue = self._table.find(unit.topic, unit.queue_id)
        if queue is None:
            return self._refuse(PutStatus.MESSAGE_ILLEGAL)
        size = unit_size(unit)
        try:
            at = self._log.reserve(size)
        except OSError as error:
            return self._no_room(error)
        self._place(unit, queue, at, size)
        self._log.write(at, encode_unit(unit))
        self._stats.put_count += 1
        self._stats.put_bytes += size
        return PutResult(PutStatus.OK, at, size, unit.queue_offset, unit.store_time)

    def append_batch(self, units: list[Unit]) -> PutResult:
        """Append messages of one queue, one behind the other, in one write; none of them when one cannot be taken."""
        total = 0
        for unit in units:
            status = self.check(unit)
            if status is not PutStatus.OK:
                return self._refuse(status)
            total += unit_size(unit)
        queue = self._table.find(units[0].topic, units[0].queue_id) if units else None
        if queue is None or total > min(self.largest_unit, self.max_message_size + _BESIDE_BODY * len(units)):
            return self._refuse(PutStatus.MESSAGE_ILLEGAL)
        try:
            start = self._log.reserve(total)
        except OSError as error:
            return self._no_room(error)
        self._log.write(start, self._place_all(units, queue, start))
        self._stats.put_count += len(units)
        self._stats.put_bytes += total
        return PutResult(PutStatus.OK, start, total, units[0].queue_offset, units[0].store_time, len(units))

    def _place_all(self, units: list[Unit], queue: ConsumeQueue, at: int) -> bytes:
        encoded: list[bytes] = []
        for unit in units:
            size = unit_size(unit)
            self._place(unit, queue, at, size)
            encoded.append(encode_unit(unit))
            at += size
        return b"".join(encoded)

    def _place(self, unit: Unit, queue: ConsumeQueue, at: int, size: int) -> None:
        """Give a unit its offsets and its time, and tell dispatch of it. It is written before anybody else runs."""
        now = self._clock.now_ms()
        if now < self.last_time:
            self.time_went_back = True
        self.last_time = now
        unit.physical_offset = at
        unit.store_time = now
        transaction = unit.sys_flag & _TRANSACTION
        if transaction in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            unit.queue_offset = 0  # such a message is in no queue
        else:
            unit.queue_offset = queue.next_offset
            queue.next_offset += 1
        self._dispatcher.pending.append(
            Dispatched(queue, unit.queue_offset, at, size, now, unit.sys_flag, unit.properties)
        )

    def check(self, unit: Unit) -> PutStatus:
        """Whether the store takes messages at all, and this one."""
        if not self._health.writable:
            return PutStatus.SERVICE_NOT_AVAILABLE
        if len(unit.properties) > _MAX_PROPERTIES:
            return PutStatus.PROPERTIES_TOO_LONG
        body = len(unit.body)
        if len(unit.topic) > _MAX_TOPIC or body > self.max_message_size or body + _BESIDE_BODY > self.largest_unit:
            return self._check_size(unit)
        return PutStatus.OK

    def _check_size(self, unit: Unit) -> PutStatus:
        if len(unit.topic) > _MAX_TOPIC or len(unit.body) > self.max_message_size:
            return PutStatus.MESSAGE_ILLEGAL
        return PutStatus.OK if unit_size(unit) <= self.largest_unit else PutStatus.MESSAGE_ILLEGAL

    def _refuse(self, status: PutStatus) -> PutResult:
        self._stats.put_failed += 1
        return PutResult(status, count=0)

    def _no_room(self, error: OSError) -> PutResult:
        self._health.fail("room", f"no room for the next log file: {error}")
        return self._refuse(PutStatus.CREATE_FILE_FAILED)
