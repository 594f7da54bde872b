"""Bringing a store back after a stop of any kind.

After a clean stop only the last part of the log is checked. After any other stop, reading starts at a message older
than the checkpoint: all before it is durable. From there every unit is checked, and queues and index are built anew; at
the first unit that is not whole the log ends, and what lies behind is made zero.
"""

import logging

from ariane.env import Env
from ariane.store.checkpoint import Checkpoint
from ariane.store.commitlog import CommitLog, LogFile, LogSegment
from ariane.store.dispatch import Dispatcher
from ariane.store.index import Index
from ariane.store.indexload import cut_index, drop_index, repair_index
from ariane.store.layout import ENTRY_SIZE, Layout
from ariane.store.load import find_end
from ariane.store.options import StoreOptions
from ariane.store.queues import QueueTable, QueueWriter
from ariane.store.results import RecoveryReport
from ariane.store.scan import END_OF_FILE, UNIT, Dispatched, kind_at, read_unit, store_time_of

log = logging.getLogger("ariane.store")

_BATCH = 1024
_NEAR_END = 32 << 20  # so much of the log is checked however it was stopped
_NEAR_ENOUGH = 1 << 20
_NO_LIMIT = 1 << 62


class Recovery:
    """One recovery; `run` does it and fills the report."""

    def __init__(
        self,
        options: StoreOptions,
        env: Env,
        layout: Layout,
        source: CommitLog,
        table: QueueTable,
        index: Index | None,
        dispatcher: Dispatcher,
        writer: QueueWriter,
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

    def run(self) -> None:
        if not self._log.files:
            self._without_log()
        elif self._report.clean:
            self._after_clean_stop()
        else:
            self._after_crash()
        self._settle()

    def _without_log(self) -> None:
        if len(self._table):
            self._report.notes.append("the log has no files: its queues are removed")
        for queue in self._table:
            self._table.drop(queue)
        if self._index is not None:
            drop_index(self._env.files, self._index)

    def _after_clean_stop(self) -> None:
        for queue in self._table:
            find_end(queue, _NO_LIMIT)
        start = self._start_near(self._table.max_physical())
        end = self._check_from(start, rebuild=False)
        self._cut_log(end)
        if self._table.max_physical() > end:
            self._cut_queues(end)
        self._dispatcher.position = max(self._table.max_physical(), self._log.min_offset)

    def _after_crash(self) -> None:
        for queue in self._table:
            find_end(queue, _NO_LIMIT)
        start = min(self._safe_start(), self._start_near(self._table.max_physical()))
        self._cut_queues(start)
        end = self._check_from(self._index_start(start), rebuild=True)
        self._cut_log(end)
        self._dispatcher.position = end

    def _index_start(self, start: int) -> int:
        """Where reading must start so that the index is whole again: at `start`, or before if the index lost more."""
        if self._index is None:
            return start
        resume = repair_index(self._env.files, self._index, self.checkpoint.index_time)
        if resume < 0 or resume >= start:
            return start
        at = max(resume, self._log.min_offset)
        file = self._log.files[(at - self._log.min_offset) // self._log.file_size]
        return at if kind_at(file.memory, at - file.base) == UNIT else file.base

    def _cut_queues(self, limit: int) -> None:
        """Drop all entries that point to `limit` or behind, on the disk too, so that they never come back."""
        for queue in self._table:
            find_end(queue, limit)
            if queue.files:
                base = queue.files[-1]
                self._table.reader.forget(queue.path(base))
                self._env.files.clear(queue.path(base), (queue.max_offset - base) * ENTRY_SIZE)

    # -- where to start -------------------------------------------------------------------------------------------

    def _safe_start(self) -> int:
        """A unit's place such that all before it is durable: it was stored before the checkpoint."""
        with_index = self._options.message_index_safe and self._index is not None
        safe = self.checkpoint.safe_time(with_index=with_index)
        for file in reversed(self._log.files):
            if kind_at(file.memory, 0) == UNIT and 0 < store_time_of(file.memory) <= safe:
                return self._last_before(file, safe)
        return self._log.min_offset

    def _last_before(self, file: LogFile, ms: int) -> int:
        """The place of one of the last units of a file that were stored at `ms` or before; its first one is."""
        low, high = 0, self._log.file_size
        while high - low > _NEAR_ENOUGH:
            middle = (low + high) // 2
            found = find_unit(file, middle, self._table)
            if 0 <= found < high and store_time_of(file.memory[found:]) <= ms:
                low = found
            else:
                high = middle
        return file.base + low

    def _start_near(self, physical: int) -> int:
        """A unit's place some way before `physical`, in the last files."""
        first = self._log.files[max(len(self._log.files) - 3, 0)].base
        wanted = min(physical, self._log.end) - _NEAR_END
        if wanted <= first:
            return first
        file = self._log.files[(wanted - self._log.min_offset) // self._log.file_size]
        return file.base + max(find_unit(file, wanted - file.base, self._table), 0)

    # -- reading the log ------------------------------------------------------------------------------------------

    def _check_from(self, start: int, *, rebuild: bool) -> int:
        """Check units from `start` on; the end of the last whole one."""
        at = start
        batch: list[Dispatched] = []
        for file in self._log.files:
            if file.base + self._log.file_size <= start:
                continue
            at, goes_on = self._check_file(file, max(at, file.base), batch if rebuild else None)
            if not goes_on:
                break
        self._dispatch(batch)
        return at

    def _check_file(self, file: LogFile, at: int, batch: list[Dispatched] | None) -> tuple[int, bool]:
        """Check units from `at` on: where the last whole one ends, and whether the log goes on behind the file."""
        memory = file.memory
        base = file.base
        crc = self._options.check_crc_on_recover
        table = self._table
        scanned = 0
        while True:
            found = read_unit(memory, at - base, at, crc, table)
            if found is None:
                self._report.scanned += scanned
                return at, kind_at(memory, at - base) == END_OF_FILE and file is not self._log.files[-1]
            scanned += 1
            at += found.size
            if batch is not None and found.queue is not table.nowhere:
                batch.append(found)
                if len(batch) >= _BATCH:
                    self._dispatch(batch)

    def _dispatch(self, batch: list[Dispatched]) -> None:
        self._dispatcher.filler.put(batch)
        self._report.dispatched += len(batch)
        batch.clear()
        if self._table.memory() > self._options.consumequeue_memory:
            self._write_entries()

    def _write_entries(self) -> None:
        work = self._table.collect(1)
        self._writer.write(work)
        self._table.wrote(work, keep=0)

    # -- the end --------------------------------------------------------------------------------------------------

    def _cut_log(self, end: int) -> None:
        if self._index is not None:
            cut_index(self._env.files, self._index, end)
        self._report.cut = self._log.truncate(end)
        if self._report.cut:
            note = f"the log ends at {end}: {self._report.cut} bytes behind it that were no whole message are cut off"
            self._report.notes.append(note)
            log.warning(note)

    def _settle(self) -> None:
        """Dispatch what is left, and make queues durable before new messages come."""
        while self._dispatcher.run():
            pass
        for queue in self._table:
            queue.next_offset = queue.max_offset
            queue.correct_min(max(self._log.min_offset, 0))
        self._write_entries()
        self._writer.sync()


def find_unit(file: LogSegment, at: int, table: QueueTable) -> int:
    """The place in a file of the first unit at or behind `at`: its magic is there and it says itself where it lies."""
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
