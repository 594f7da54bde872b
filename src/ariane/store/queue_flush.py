"""Flushes queue entries, the index and the checkpoint."""

import logging
from collections.abc import Callable

from ariane.env import Clock, Files
from ariane.store.checkpoint import Checkpoint
from ariane.store.health import Health
from ariane.store.index.index import Index
from ariane.store.index.index_file import IndexFile
from ariane.store.layout import Layout
from ariane.store.log.flush import Flusher
from ariane.store.options import StoreOptions
from ariane.store.queue.consumequeue import KEEP
from ariane.store.queue.entries import ENTRY_SIZE
from ariane.store.queue.table import QueueTable
from ariane.store.queue.writer import EntriesToWrite, QueueWriter
from ariane.store.worker import Worker

log = logging.getLogger("ariane.store")

_PAGE = 4096
_CHECKPOINT_EVERY = 256 << 20  # bytes of log: more would make the next recovery slow


class QueueFlusher:
    """Writes the entries of queues that have enough of them and, at a longer interval, all with a checkpoint."""

    def __init__(
        self,
        options: StoreOptions,
        files: Files,
        clock: Clock,
        layout: Layout,
        table: QueueTable,
        index: Index | None,
        writer: QueueWriter,
        worker: Worker,
        flusher: Flusher,
        health: Health,
        checkpoint: Checkpoint,
    ) -> None:
        self.checkpoint = checkpoint
        self.dispatched_time: Callable[[], int] = int
        self.dispatched_offset: Callable[[], int] = int
        self._options = options
        self._files = files
        self._clock = clock
        self._layout = layout
        self._table = table
        self._index = index
        self._writer = writer
        self._worker = worker
        self._flusher = flusher
        self._health = health
        self._busy = False
        self._lower_to: int | None = None
        self._last_thorough = clock.monotonic()
        self._last_offset = 0

    def tick(self) -> None:
        """Once per interval: write the queues that have enough, and all of them when it is time."""
        elapsed = self._clock.monotonic() - self._last_thorough
        due = elapsed >= self._options.flush_consumequeue_thorough_interval.total_seconds()
        due = due or self.dispatched_offset() - self._last_offset >= _CHECKPOINT_EVERY
        if due and (self._table.dirty or self.plan() != self.checkpoint):
            self.flush(thorough=True)
        elif self._table.dirty or self._table.reader.doomed:
            self.flush(thorough=False)

    def flush(self, *, thorough: bool, keep: int = KEEP) -> None:
        """Write entries; with `thorough` all of them, and make them, the index and a new checkpoint durable."""
        if self._busy:
            return
        memory = self._options.consumequeue_memory
        crowded = self._table.memory() > memory
        keep = 0 if crowded else min(keep, memory // ENTRY_SIZE // max(len(self._table), 1))
        least = 1 if thorough or crowded else self._options.flush_consumequeue_least_pages * _PAGE // ENTRY_SIZE
        round_ = QueueRound(self, self._table.collect(max(least, 1)), thorough)
        if thorough:
            self._last_thorough = self._clock.monotonic()
            self._last_offset = self.dispatched_offset()
        self._busy = True
        self._worker.submit(round_.run, lambda error: self._ended(round_, keep, error))

    def _ended(self, round_: "QueueRound", keep: int, error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            self._table.reader.doomed = round_.work.doomed + self._table.reader.doomed
            self._health.fail("queues", f"queue entries could not be written: {error}")
            self._lower_late()
            return
        self._health.clear("queues")
        self._table.wrote(round_.work, keep)
        if round_.saved is not None:
            self.checkpoint = round_.saved
        self._lower_late()
        if self._index is not None:
            self._index.finished = [file for file in self._index.finished if file not in round_.finished]

    def plan(self) -> Checkpoint:
        """The checkpoint to save once everything dispatched so far is durable."""
        index_time = self.checkpoint.index_time
        if self._index is not None and self._index.finished:
            index_time = max(index_time, self._index.finished[-1].end_time)
        return Checkpoint(self._flusher.flushed_time, self.dispatched_time(), index_time)

    def lower(self, ms: int) -> None:
        """Lower the checkpoint to `ms` after a clock set back or a truncation: newer messages are not durable."""
        if self._busy:  # the round saves its own plan first
            self._lower_to = ms if self._lower_to is None else min(ms, self._lower_to)
            return
        old = self.checkpoint
        self.checkpoint = Checkpoint(min(old.log_time, ms), min(old.queue_time, ms), min(old.index_time, ms))
        self.checkpoint.save(self._files, self._layout.checkpoint)

    def _lower_late(self) -> None:
        ms, self._lower_to = self._lower_to, None
        if ms is not None:
            self.lower(ms)

    def index_files(self) -> tuple[list[IndexFile], IndexFile | None]:
        """The index files that are full, and the one that is being filled."""
        if self._index is None or not self._index.files:
            return [], None
        return list(self._index.finished), self._index.files[-1]


class QueueRound:
    """One round of writing, run in the thread. The checkpoint is saved last."""

    def __init__(self, owner: QueueFlusher, work: EntriesToWrite, thorough: bool) -> None:
        self.work = work
        self.saved: Checkpoint | None = None
        self.finished, self._current = owner.index_files() if thorough else ([], None)
        self._checkpoint = owner.plan() if thorough else None
        self._writer = owner._writer
        self._files = owner._files
        self._path = owner._layout.checkpoint

    def run(self) -> None:
        self._writer.write(self.work)
        if self._checkpoint is None:
            return
        for file in self.finished:
            file.file.sync()
        if self._current is not None:
            self._current.file.sync()
        self._writer.sync()
        self._checkpoint.save(self._files, self._path)
        self.saved = self._checkpoint
