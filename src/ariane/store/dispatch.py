"""Dispatch (RocketMQ's reput): puts appended messages into their queues and the index, in log order.

Appended messages are handed over in memory; bytes that reach the log in other ways (replication, recovery) are read
from the log, and when no listener wants their messages they are dispatched without an object for each. Each byte of
the log is dispatched once; `position` is the end of the dispatched part.
"""

import logging
from collections.abc import Callable
from typing import Final

from ariane.message import TIMER_CANCEL, TIMER_OUT_MS, TIMER_TOPIC
from ariane.protocol.properties import delay_level
from ariane.store.index.index import Index
from ariane.store.log.log import Log
from ariane.store.queue.table import QueueTable
from ariane.store.quick_fill import QuickFill
from ariane.store.units.marks import value_of
from ariane.store.units.reading import Dispatched, is_in_queue, read_unit
from ariane.store.units.scanning import UnitReader, UnitScan

log = logging.getLogger("ariane.store")

DispatchListener = Callable[[list[Dispatched]], None]
Wants = Callable[[], bool]
"""Whether a listener needs the messages that are dispatched next; it may get them nevertheless."""

_TIMER_OUT: Final = TIMER_OUT_MS.encode() + b"\x01"
_TIMER_CANCEL: Final = TIMER_CANCEL.encode() + b"\x01"
_LONGEST_TIME: Final = 18  # digits
_SCANNED: Final = 1 << 18  # bytes of the log that are read at once
_MANY: Final = 1 << 20  # units: no limit beside that of the bytes
_DEFAULT_DELAYS: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def always() -> bool:
    """What a listener wants that needs every message."""
    return True


def default_delay_ms(level: int) -> int:
    """The delay of a level in RocketMQ's default table; levels beyond it count as its last."""
    return _DEFAULT_DELAYS[min(level, len(_DEFAULT_DELAYS)) - 1] * 1000


def timer_code(properties: bytes) -> int:
    """The time at which a timed message is due, negative for one that cancels another; 0 when it has none."""
    due = value_of(properties, _TIMER_OUT)
    if due is None or not due.isdigit() or len(due) > _LONGEST_TIME:
        return 0
    return int(due) if value_of(properties, _TIMER_CANCEL) is None else -int(due)


class Filler:
    """Fills queues and index."""

    def __init__(self, table: QueueTable, index: Index | None, delay_ms: Callable[[int], int]) -> None:
        self.last_store_time = 0
        self.delay_ms = delay_ms
        self.index = index
        self._table = table

    def put(self, batch: list[Dispatched]) -> None:
        """Put messages into their queues and the index. Idempotent: can be repeated after a failure."""
        for message in batch:
            queue = message.queue
            if queue.is_schedule:
                message.tags_code = self._delivery_time(message)
            if not is_in_queue(message.sys_flag):
                continue
            put = queue.put(message.physical_offset, message.size, message.tags_code, message.queue_offset)
            if put and not queue.is_dirty:
                self._table.mark(queue)
        if self.index is not None:
            self.index.add(batch)
        if batch:
            self.last_store_time = batch[-1].store_time

    def _delivery_time(self, message: Dispatched) -> int:
        """The tags code of a delayed message is its delivery time, of any other message the hash of its tag."""
        if message.queue.topic == TIMER_TOPIC:
            return timer_code(message.properties) or message.tags_code
        level = delay_level(message.properties)
        return message.store_time + self.delay_ms(level) if level > 0 else message.tags_code


class Dispatcher:
    """Dispatches the log. `position` is the end of the dispatched part."""

    def __init__(self, source: Log, table: QueueTable, filler: Filler) -> None:
        self.position = 0
        self.last_at = -1
        """The last unit that was read from the log; -1 when there was none."""
        self.pending: list[Dispatched] = []
        self.listeners: dict[DispatchListener, Wants] = {}
        self.barrier = ""
        """A topic whose messages end the batch that is read: listeners see them before what follows is dispatched."""
        self.filler = filler
        self._log = source
        self._table = table
        self._units = UnitReader(table)
        self._quick = QuickFill(table, filler.index)
        self._received = b""  # bytes of the log that are still at hand, and where they begin
        self._received_at = 0

    def run(self, limit: int = 4096) -> bool:
        """Dispatch pending messages, else up to `limit` units read from the log. False when nothing is left."""
        end = self._log.end
        if self.pending and self.pending[0].physical_offset + self.pending[0].size <= end:
            batch = self._ready(end)
            position = batch[-1].physical_offset + batch[-1].size
        elif self.position < end and not self.pending:
            if not self._is_wanted() and self._fill():
                return True
            batch, position = self._read(limit)
        else:
            return False
        if position == self.position:
            return False
        try:
            self.filler.put(batch)
        except OSError:
            if position > self.position and batch:
                self.pending = batch + self.pending  # retried later
            raise
        self.position = position
        for listener in self.listeners:
            listener(batch)
        return True

    def offer(self, at: int, data: bytes) -> None:
        """Bytes that were just appended at `at`: reading them here spares a copy out of the log. b"" ends the offer."""
        self._received_at = at
        self._received = data

    def cut(self, end: int) -> None:
        """The log was truncated at `end`."""
        self.pending = [message for message in self.pending if message.physical_offset < end]
        self.position = min(self.position, end)
        self.last_at = -1

    def _ready(self, end: int) -> list[Dispatched]:
        batch = self.pending
        if batch[-1].physical_offset + batch[-1].size <= end:
            self.pending = []
            return batch
        split = 0
        while batch[split].physical_offset + batch[split].size <= end:
            split += 1
        self.pending = batch[split:]
        return batch[:split]

    def _is_wanted(self) -> bool:
        return any(wants() for wants in self.listeners.values())

    def _fill(self) -> bool:
        """Dispatch a run of ordinary copied units quickly; False when none begins at `position`."""
        quick, position = self._quick, self.position
        if self._log.header_of(position):
            return False
        try:
            end = self._scan(quick, position, _MANY)
        finally:
            quick.write()
        if end == position:
            return False
        self.last_at = quick.last_at
        self.filler.last_store_time = quick.last_store_time
        self.position = end
        return True

    def _read(self, limit: int) -> tuple[list[Dispatched], int]:
        """Read units from the log, starting at `position`; also returns their end."""
        batch: list[Dispatched] = []
        self._units.batch = batch
        position = self.position
        general = 0  # units to read one by one: those that the scan does not know come in runs too
        while len(batch) < limit:
            if not general and not self._log.header_of(position):
                scanned, position = position, self._scan(self._units, position, limit - len(batch))
                general = 64 if scanned == position else 1
                if batch:
                    self.last_at = batch[-1].physical_offset
                if len(batch) >= limit:
                    break
            general = max(general - 1, 0)
            at = self._log.next_unit(position)
            found = None if at < 0 else self._unit_at(at)
            if found is None:
                break
            position = at + found.size
            self.last_at = at
            if found.queue is not self._table.nowhere:
                batch.append(found)
                if not is_in_queue(found.sys_flag) and found.queue.topic == self.barrier:
                    break
        self._units.batch = []
        for message in batch:
            # If this slave is promoted, its own appends continue after the copied messages.
            if message.queue_offset >= message.queue.next_offset and is_in_queue(message.sys_flag):
                message.queue.next_offset = message.queue_offset + 1
        return batch, position

    def _scan(self, units: UnitScan, position: int, most: int) -> int:
        """Read a run of ordinary units quickly; returns where it ends, which may be `position`."""
        at = position - self._received_at
        if 0 <= at < len(self._received):
            end = min(len(self._received), self._log.end - self._received_at)
            return units.scan(self._received, at, end, position, most)
        span = self._log.span(position)
        if span is None:
            return position
        base, end, memory = span
        data = bytes(memory[position - base : min(end, position + _SCANNED) - base])
        return units.scan(data, 0, len(data), position, most)

    def _unit_at(self, at: int) -> Dispatched | None:
        head = self._log.view(at, 4)
        if head is None:
            return None
        unit = self._log.view(at, int.from_bytes(head, "big"))
        return None if unit is None else read_unit(unit, 0, at, False, self._table)
