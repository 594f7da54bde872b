"""Recovers a store at its start.

After a clean stop only the last part of the log is checked. After any other stop, reading starts at a message older
than the checkpoint: everything before it is durable. From there every unit is checked, and queues and index are
rebuilt; the log ends at the first unit that is not whole, and what follows is zeroed.

Structure alone decides whether a unit is whole: its size, magic, physical offset, lengths and checksum. Only the
properties have no checksum and may hold any bytes, so a sector of zeros in them is either what a user wrote or what a
power cut left. It counts as torn only if the machine was restarted since, nothing valid follows, and no sync of it was
noted (`DurableEnd`).
"""

import errno
import logging
from collections.abc import Iterator
from typing import Final

from ariane.env import Env
from ariane.protocol.units import QUEUE_ID_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT, TRANSACTION_PREPARED
from ariane.store.checkpoint import Checkpoint, DurableEnd
from ariane.store.deleted_topics import DeletedTopics
from ariane.store.dispatch import Dispatcher
from ariane.store.index.index import Index
from ariane.store.index.repair import cut_index, drop_index, repair_index
from ariane.store.layout import Layout
from ariane.store.log.log import Log
from ariane.store.log.log_file import LogSegment
from ariane.store.options import StoreOptions
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.cut import cut_queues
from ariane.store.queue.table import QueueTable
from ariane.store.queue.writer import QueueWriter
from ariane.store.recovery.load import find_end
from ariane.store.recovery.queue_order import LEFT_OUT, QueueOrder
from ariane.store.results import RecoveryReport
from ariane.store.units.reading import (
    END_OF_FILE,
    UNIT,
    Dispatched,
    has_zero_sector,
    is_in_queue,
    read_unit,
    store_time_of,
)

log = logging.getLogger("ariane.store")

_BATCH: Final = 1024
_NEAR_END: Final = 32 << 20  # bytes of the log that are checked after any stop
_NEAR_ENOUGH: Final = 1 << 20
_NO_LIMIT: Final = 1 << 62
_MOST_CANDIDATES: Final = 1000  # candidates for a first unit; after that, reading starts at the file's beginning


class Recovery:
    """One recovery; `run` does it and fills the report."""

    def __init__(
        self,
        options: StoreOptions,
        env: Env,
        layout: Layout,
        source: Log,
        table: QueueTable,
        index: Index | None,
        dispatcher: Dispatcher,
        writer: QueueWriter,
        durable_end: DurableEnd,
        deleted: DeletedTopics,
        report: RecoveryReport,
    ) -> None:
        self.checkpoint = Checkpoint.load(env.files, layout.checkpoint)
        self._options = options
        self._env = env
        self._log = source
        self._table = table
        self._index = index
        self._dispatcher = dispatcher
        self._writer = writer
        self._report = report
        self._end = 0
        self._durable = durable_end
        self._durable_end = durable_end.load()
        self._deleted = deleted
        self._limit = _NO_LIMIT
        self._undispatched = _NO_LIMIT  # where dispatch must resume after a full disk

    def run(self) -> None:
        """Check the log, cut what is torn, and make queues and index end with it."""
        if self._log.min_offset < 0:
            self._drop_queues_and_index()
            return
        if self._log.checked_end >= 0:
            self._limit = self._log.checked_end
        self._deleted.load()
        for queue in self._table:
            find_end(queue, _NO_LIMIT)
            if queue.files and queue.max_physical <= self._deleted.end_of(queue.topic):
                self._table.drop(queue)  # the topic was deleted, but not yet its files
        start = self._before_limit(self._start_near(self._table.max_physical()))
        if self._report.clean:
            self._check(start)
        else:
            start = min(self._before_limit(self._safe_start()), start)
            for queue in self._table:
                find_end(queue, start)
            self._rebuild(self._index_start(start))
            # A kill leaves unsynced bytes. Sync them: offsets reported as durable from here on must be durable.
            self._log.sync_job(start, self._log.stored, rewrite=False)()
        if self._index is not None:
            cut_index(self._env.files, self._index, self._end)
        self._durable.lower(self._end)
        self._deleted.lower(self._end)
        self._report.cut = self._log.recovered(self._end)
        if self._report.cut:
            note = f"the log ends at {self._end}: {self._report.cut} bytes after it were no whole message and are cut"
            self._report.notes.append(note)
            log.warning(note)
        if not self._report.clean or self._table.max_physical() > self._end:
            self._write_entries()
            cut_queues(self._env.files, self._table, self._writer, self._end)
        dispatched = self._table.max_physical() if self._report.clean else self._end
        self._dispatcher.position = max(min(dispatched, self._undispatched), self._log.min_offset)
        try:
            while self._dispatcher.run():
                pass
        except OSError as error:
            self._no_room(error)
        for queue in self._table:
            queue.next_offset = queue.max_offset
            queue.correct_min(max(self._log.min_offset, 0))
        self._write_entries()
        self._writer.sync()

    def _drop_queues_and_index(self) -> None:
        if len(self._table):
            self._report.notes.append("the log has no files: its queues are removed")
        for queue in self._table:
            self._table.drop(queue)
        if self._index is not None:
            drop_index(self._env.files, self._index)
        self._write_entries()
        self._writer.sync()

    def _check(self, start: int) -> None:
        """Find the end of the log; the queues are complete and stay as they are."""
        order = QueueOrder(start, self._log.min_offset, self._units, queues_complete=True)
        for unit in self._units(start):
            self._correct(unit, *order.place_of(unit))
            self._report.scanned += 1

    def _rebuild(self, start: int) -> None:
        """Find the end of the log, and put all units on the way into queues and index."""
        order = QueueOrder(start, self._log.min_offset, self._units, queues_complete=False)
        batch: list[Dispatched] = []
        for unit in self._units(start):
            self._report.scanned += 1
            if unit.queue is self._table.nowhere:
                continue
            queue, offset = order.place_of(unit)
            if offset == LEFT_OUT:
                self._note(f"the message at {unit.physical_offset} has no place in {unit.topic}/{unit.queue_id}")
                continue
            self._correct(unit, queue, offset)
            batch.append(unit)
            if len(batch) >= _BATCH:
                self._dispatch(batch)
        self._dispatch(batch)

    def _correct(self, unit: Dispatched, queue: ConsumeQueue, offset: int) -> None:
        """Write the right queue and offset into a unit of the log: consumers take them from there."""
        if (queue, offset) == (unit.queue, unit.queue_offset) or offset == LEFT_OUT or self._limit < _NO_LIMIT:
            return  # a self-checking log must stay identical to its replicas
        stated = f"{unit.topic}/{unit.queue_id} offset {unit.queue_offset}"
        right = f"{queue.topic}/{queue.queue_id} offset {offset}"
        self._note(f"the message at {unit.physical_offset} was damaged: it stated {stated} and is {right}")
        self._log.patch(unit.physical_offset + QUEUE_ID_AT, queue.queue_id.to_bytes(4, "big"))
        self._log.patch(unit.physical_offset + QUEUE_OFFSET_AT, offset.to_bytes(8, "big"))
        unit.queue, unit.queue_offset = queue, offset

    def _clear_prepared(self, unit: Dispatched) -> None:
        """Clear a damaged transaction flag: a unit that is in no queue has the offset 0."""
        unit.sys_flag &= ~TRANSACTION_PREPARED
        self._note(f"the message at {unit.physical_offset} had a damaged transaction flag: it is cleared")
        self._log.patch(unit.physical_offset + SYS_FLAG_AT, unit.sys_flag.to_bytes(4, "big", signed=True))

    def _note(self, text: str) -> None:
        self._report.notes.append(text)
        log.warning(text)

    def _dispatch(self, batch: list[Dispatched]) -> None:
        try:
            self._dispatcher.filler.put(batch)
        except OSError as error:  # of the index; the queues have their entries
            self._no_room(error)
            if batch:
                first = batch[0].physical_offset
                self._undispatched = min(self._undispatched, first - self._log.header_of(first))
        self._report.dispatched += len(batch)
        batch.clear()
        if self._table.memory() > self._options.consumequeue_memory:
            self._write_entries()

    def _write_entries(self) -> None:
        work = self._table.collect(1)
        try:
            self._writer.write(work)
        except OSError as error:
            self._table.reader.doomed = work.doomed + self._table.reader.doomed
            self._no_room(error)
        else:
            self._table.wrote(work, keep=0)

    def _no_room(self, error: OSError) -> None:
        """Continue on a full disk: entries stay in memory until the running store has room to write them."""
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise error
        note = f"the disk is full: {error}; queues and index are completed when there is room"
        if note not in self._report.notes:
            self._note(note)

    def _before_limit(self, start: int) -> int:
        """`start`, or the first record of an earlier file if the log is not readable up to `start`."""
        return start if start <= self._limit else max(base for base in self._log.bases() if base <= self._limit)

    # -- where to start -------------------------------------------------------------------------------------------

    def _index_start(self, start: int) -> int:
        """Where reading must start to complete the index: at `start`, or earlier if the index lost more."""
        if self._index is None:
            return start
        resume = repair_index(self._env.files, self._index, self.checkpoint.index_time)
        if resume < 0 or resume >= start:
            return start
        at = max(resume - self._log.header_of(resume), self._log.min_offset)
        file = self._file_of(at)
        return at if self._log.kind_at(file, at - file.base) == UNIT else file.base

    def _file_of(self, at: int) -> LogSegment:
        span = self._log.span(at)
        assert span is not None  # everything is readable until the log is cut
        return LogSegment(span[0], span[2])

    def _safe_start(self) -> int:
        """The offset of a record stored before the checkpoint, so that everything before it is durable."""
        with_index = self._options.message_index_safe and self._index is not None
        safe = self.checkpoint.safe_time(with_index=with_index)
        for base in reversed(self._log.bases()):
            file = self._file_of(base)
            if self._log.kind_at(file, 0) == UNIT and 0 < self._store_time(file, 0) <= safe:
                break
        else:
            return self._log.min_offset
        low, high = 0, self._log.file_size
        while high - low > _NEAR_ENOUGH:
            middle = (low + high) // 2
            found = self._queued_record(file, middle)
            if 0 <= found < high and self._store_time(file, found) <= safe:
                low = found
            else:
                high = middle
        return file.base + low

    def _store_time(self, file: LogSegment, record: int) -> int:
        return store_time_of(file.memory[record + self._log.header_of(file.base + record) :])

    def _start_near(self, physical: int) -> int:
        """The offset of a record some way before `physical`, in the last three files."""
        first = self._log.bases()[-3:][0]
        wanted = min(physical, self._log.end) - _NEAR_END
        if wanted <= first:
            return first
        file = self._file_of(wanted)
        return file.base + max(self._queued_record(file, wanted - file.base), 0)

    def _queued_record(self, file: LogSegment, at: int) -> int:
        """The position in a file of a record at or after `at`; -1 when there is none.

        A body may hold the bytes of a unit. Only a unit that its consume queue points to is taken for one.
        """
        for _ in range(_MOST_CANDIDATES):
            at = find_unit(file, at, self._table)
            if at < 0:
                break
            unit = read_unit(file.memory, at, file.base + at, False, self._table)
            entry = None if unit is None else unit.queue.stored_entry(unit.queue_offset)
            record = at - self._log.header_of(file.base + at)
            if entry is not None and entry[0] == file.base + at and self._log.kind_at(file, record) == UNIT:
                return record
            at += 8  # after the magic
        return -1

    # -- reading the log ------------------------------------------------------------------------------------------

    def _units(self, start: int) -> Iterator[Dispatched]:
        """Read the whole units from the record at `start` on; sets `_end` to the end of the log."""
        at = self._end = start
        unit = None
        for base in self._log.bases():
            if base + self._log.file_size <= start:
                continue
            file, at = self._file_of(base), max(at, base)
            while at < self._limit and (unit := self._unit_at(file, at)) is not None and not self._is_torn(file, unit):
                if unit.queue_offset and not is_in_queue(unit.sys_flag) and self._limit == _NO_LIMIT:
                    self._clear_prepared(unit)
                at = unit.physical_offset + unit.size
                if self._deleted and unit.physical_offset < self._deleted.end_of(unit.topic):
                    unit.queue = self._table.nowhere
                yield unit
            self._end = at
            if at >= self._limit or unit is not None or self._log.kind_at(file, at - base) != END_OF_FILE:
                return

    def _unit_at(self, file: LogSegment, at: int) -> Dispatched | None:
        """The unit of the record at log offset `at`; None unless it is whole."""
        if self._log.kind_at(file, at - file.base) != UNIT:
            return None
        at += self._log.header_of(at)
        return read_unit(file.memory, at - file.base, at, self._options.check_crc_on_recover, self._table)

    def _is_torn(self, file: LogSegment, unit: Dispatched) -> bool:
        """Whether a power cut lost a sector of the properties: it is zero, and nothing valid follows."""
        if not self._report.rebooted or self._limit < _NO_LIMIT or 0 not in unit.properties:
            return False
        end = unit.physical_offset + unit.size - file.base
        if file.base + end <= self._durable_end or not has_zero_sector(file.memory, end, len(unit.properties)):
            return False
        kind = self._log.kind_at(file, end)
        return self._unit_at(file, file.base + end) is None and (end + 8 > len(file.memory) or kind != END_OF_FILE)


def find_unit(file: LogSegment, at: int, table: QueueTable) -> int:
    """The position in a file of the first unit at or after `at`: its magic is there and its physical offset fits."""
    memory = file.memory
    while at + 8 <= len(memory):
        chunk = bytes(memory[at : at + (1 << 16) + 7])
        found = chunk.find(b"\xda\xa3\x20\xa7")
        if found < 0:
            at += 1 << 16
            continue
        start = at + found - 4
        if start >= 0 and read_unit(memory, start, file.base + start, True, table) is not None:
            return start
        at += found + 1
    return -1
