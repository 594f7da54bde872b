"""The message store: one log, its queues and index, and the background work on them."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from ariane.env import Env, LockHeld
from ariane.message import HALF_OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ariane.protocol.units import Unit
from ariane.store.appender import Appender
from ariane.store.checkpoint import DurableEnd
from ariane.store.deleted_topics import DeletedTopics
from ariane.store.dispatch import Dispatcher, DispatchListener, Filler, Wants, always, default_delay_ms
from ariane.store.health import Health
from ariane.store.index.index import Index
from ariane.store.index.repair import cut_index, drop_index, index_shape, load_index
from ariane.store.layout import Layout
from ariane.store.log.allocate import Allocator
from ariane.store.log.commitlog import CommitLog
from ariane.store.log.flush import FlushDone, Flusher
from ariane.store.log.log import LogFactory
from ariane.store.options import StoreOptions
from ariane.store.pull import Puller
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.cut import cut_queues, end_before
from ariane.store.queue.table import QueueTable
from ariane.store.queue.writer import QueueWriter
from ariane.store.queue_flush import QueueFlusher
from ariane.store.reader import StoreReader
from ariane.store.recovery.load import commitlog_file_size, consumequeue_file_entries, load_queues
from ariane.store.recovery.recovery import Recovery
from ariane.store.results import PutResult, RecoveryReport, StoreCounters, StoreLocked
from ariane.store.retention import MANUAL_PASSES, Retention
from ariane.store.units.marks import Marks
from ariane.store.units.reading import is_in_queue
from ariane.store.worker import Worker

log = logging.getLogger("ariane.store")

_GATHER: Final = 0.01  # seconds in which copied bytes are gathered for one dispatch, when their report goes first
_NEVER_UNUSED: Final = frozenset((SCHEDULE_TOPIC, TIMER_TOPIC, HALF_OP_TOPIC))


class MessageStore(StoreReader):
    """A store folder in use: `open` (blocking), `start`, then calls from the event loop's thread, then `close`.

    Without `start` nothing runs in the background: the caller flushes and dispatches.
    `make_log` makes the log; a replicated log takes the place of the plain commitlog.
    """

    def __init__(self, options: StoreOptions, env: Env, make_log: LogFactory = CommitLog) -> None:
        self.options = options
        self.env = env
        self.health = Health()
        self.layout = Layout(options.root, options.commitlog_folder)
        self._make_log = make_log
        self._opened = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._sync_worker = Worker("store-flush")
        self._file_worker = Worker("store-queues")
        self._allocate_worker = Worker("store-allocate")
        self._dispatch_due = False
        self._held = False
        self._flush_due = False  # messages of this burst wait for the disk
        self._stored_listeners: list[Callable[[], None]] = []
        self.on_cut: list[Callable[[int], None]] = []
        """Called with the new end when messages were dropped from the log: another copy of it is right."""
        self._told = 0  # end of the log at the last call of the listeners
        self.when_replicated: Callable[[int, FlushDone], None] | None = None
        """Set by a replicated log: `when_flushed` waits for this instead of the local disk."""

    # -- opening --------------------------------------------------------------------------------------------------

    def open(self) -> RecoveryReport:
        """Lock the folder, load and recover it. Takes seconds after a crash."""
        began = self.env.clock.monotonic()
        files = self.env.files
        for folder in (self.layout.root, self.layout.commitlog, self.layout.consumequeue):
            files.make_folder(folder)
        note = f"lock held by process {os.getpid()} on {socket.gethostname()}"
        try:
            self._lock = files.lock(self.layout.lock, note)
        except LockHeld as held:
            holder = held.holder.removeprefix("lock").strip() or "held by another broker"
            text = f"the store {self.layout.root} is in use: {holder}; stop it, or use another folder"
            raise StoreLocked(text) from None
        clean = not files.exists(self.layout.abort)
        same_boot = not clean and files.boot() == files.read(self.layout.abort).decode(errors="replace") != ""
        report = RecoveryReport(clean=clean, rebooted=not clean and not same_boot)
        try:
            self._build(report)
            recovery = self._recover(report)
        except BaseException:
            self._lock.release()
            raise
        self._after_recovery(recovery, report)
        report.seconds = self.env.clock.monotonic() - began
        return report

    def _build(self, report: RecoveryReport) -> None:
        """Create the parts, with the file sizes found on disk."""
        o, files, clock = self.options, self.env.files, self.env.clock
        file_size = commitlog_file_size(files, self.layout.commitlog, o.commitlog_file_size, report.notes)
        file_entries = consumequeue_file_entries(files, self.layout, o.consumequeue_file_entries, report.notes)
        transient = o.transient_store_pool and o.flush == "ASYNC_FLUSH"
        self._allocator = Allocator(files, self._allocate_worker)
        self.log = self._make_log(self.layout.commitlog, file_size, files, self._allocator, transient)
        self.table = QueueTable(self.layout, files, file_entries, o.open_consumequeue_files)
        self._writer = QueueWriter(files, self.layout.root, o.open_consumequeue_files)
        self.index = self._open_index(report) if o.index_enabled else None
        self.filler = Filler(self.table, self.index, o.delay_ms or default_delay_ms)
        self.dispatcher = Dispatcher(self.log, self.table, self.filler)
        self.stats = StoreCounters()
        self._appender = Appender(self.log, self.table, self.dispatcher, clock, self.health, self.stats, o)
        self.puller = Puller(self.log, o)
        self._durable_end = DurableEnd(files, self.layout.durable_end)
        self._deleted = DeletedTopics(files, self.layout.deleted_topics)
        self.flusher = Flusher(self.log, o, clock, self._sync_worker, self.health, self._durable_end)
        self.retention = Retention(
            o, self.env, self.layout, self.log, self.table, self.index, self.health, self._file_worker
        )

    def _open_index(self, report: RecoveryReport) -> Index:
        o, files = self.options, self.env.files
        slots, entries = index_shape(files, self.layout.index, o.index_slots, o.index_entries, report.notes)
        index = Index(self.layout.index, files, self.env.clock, slots, entries)
        load_index(files, index, report.notes)
        return index

    def _recover(self, report: RecoveryReport) -> Recovery:
        self.log.load()
        load_queues(self.env.files, self.table)
        recovery = Recovery(
            self.options,
            self.env,
            self.layout,
            self.log,
            self.table,
            self.index,
            self.dispatcher,
            self._writer,
            self._durable_end,
            self._deleted,
            report,
        )
        recovery.run()
        return recovery

    def _after_recovery(self, recovery: Recovery, report: RecoveryReport) -> None:
        files = self.env.files
        self._queue_flusher = QueueFlusher(
            self.options,
            files,
            self.env.clock,
            self.layout,
            self.table,
            self.index,
            self._writer,
            self._file_worker,
            self.flusher,
            self.health,
            recovery.checkpoint,
        )
        self._queue_flusher.dispatched_time = lambda: self.filler.last_store_time
        self._queue_flusher.dispatched_offset = lambda: self.dispatcher.position
        self.flusher.last_unit = lambda: max(self._appender.last_at, self.dispatcher.last_at)
        self.flusher.last_store_time = lambda: max(self._appender.last_time, self.filler.last_store_time)
        self.flusher.flushed_time = recovery.checkpoint.log_time
        self.filler.last_store_time = max(self.filler.last_store_time, recovery.checkpoint.queue_time)
        self._appender.last_time = self.filler.last_store_time
        try:
            files.replace(self.layout.abort, files.boot().encode())
        except OSError:  # disk full: an empty file needs no block, and a missing boot id counts as a reboot
            files.replace(self.layout.abort, b"")
        if self.dispatch_behind:  # the disk was full: refuse messages until the index is complete
            self.dispatch_now()
        self.retention.check_disk()
        report.log_min, report.log_max = self.log.min_offset, self.log.end
        report.queues = len(self.table)
        self._opened = True

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the background work."""
        self._loop = loop
        for worker in (self._sync_worker, self._file_worker, self._allocate_worker):
            worker.start(loop)
        jobs = [
            self.flusher.run_intervals(),
            self.flusher.watch_deadlines(),
            self.retention.run(),
            self._every_second(),
        ]
        if self.log.transient:
            jobs.append(self._commit_intervals())
        self._tasks = [loop.create_task(job) for job in jobs]

    async def close(self) -> None:
        """Flush everything and unlock the folder. If that fails, the next start recovers as after a crash."""
        if not self._opened:
            return
        self._opened = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        workers = (self._sync_worker, self._file_worker, self._allocate_worker)
        for worker in workers:
            await asyncio.get_running_loop().run_in_executor(None, worker.stop)
        await asyncio.sleep(0)  # the last reports of the workers
        self._finish()

    def _finish(self) -> None:
        self.log.commit()
        self.dispatch_now()
        self.flusher.begin()
        self._queue_flusher.flush(thorough=True)
        if self.health.writable and self.dispatch_behind == 0 and self.log.flushed == self.log.stored:
            self.env.files.remove(self.layout.abort)
            self.env.files.sync_folder(self.layout.root)
        else:
            log.error("the store was not closed cleanly: %s", self.health.text or "not all is durable")
        self._release()

    def _release(self) -> None:
        self._allocator.forget()
        if self.index is not None:
            self.index.close()
        self._writer.close()
        self.table.reader.close()
        self.log.close()
        self._lock.release()

    async def _every_second(self) -> None:
        while True:
            await self.env.clock.sleep(self.options.flush_consumequeue_interval.total_seconds())
            self.tick()

    async def _commit_intervals(self) -> None:
        while True:
            await self.env.clock.sleep(self.options.commit_interval.total_seconds())
            if self.log.commit():
                self.dispatch_now()

    def tick(self) -> None:
        """Run about once a second: write queue entries and retry what failed."""
        if self.dispatch_behind:
            self.dispatch_now()
        if "room" in self.health.reasons:
            self._try_room()
        self._queue_flusher.tick()

    def _try_room(self) -> None:
        try:
            self.log.start_next()
        except OSError as error:
            log.info("still no room for the next log file: %s", error)
        else:
            self.health.clear("room")

    # -- appending -----------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Begin a burst: messages appended until `dispatch_now` get one store time and become visible together."""
        self._held = True

    def append(self, unit: Unit, *, copy: bool = False) -> PutResult:
        """Append a message and assign its offsets and store time. Does not block.

        A copy of a stored message may be larger than `max_message_size`, which may have been lowered since.
        """
        if self._held and not self._appender.moment:
            self._appender.moment = self._appender.ask_time()
        result = self._appender.append(unit, copy=copy)
        self._after_append()
        return result

    def append_record(self, unit: Unit) -> PutResult:
        """Append a message that is in no queue, for the broker's own use; the caller leads its group."""
        result = self._appender.append_record(unit)
        self._after_append()
        return result

    def put(self, queue: ConsumeQueue, unit: Unit, marks: Marks) -> PutResult:
        """Like `append`, for a queue already looked up; `marks` describe the properties."""
        appender = self._appender
        if self._held and not appender.moment:
            appender.moment = appender.ask_time()
        result = appender.put(queue, unit, marks)
        self._after_append()
        return result

    def append_batch(self, unit: Unit) -> PutResult:
        """Append the messages that the body of `unit` holds, contiguous in the log; all or none.

        All messages share the unit's other fields; its properties are appended to each message's own. Raises
        ProtocolError when the body is not a batch.
        """
        if self._held and not self._appender.moment:
            self._appender.moment = self._appender.ask_time()
        result = self._appender.append_batch(unit)
        self._after_append()
        return result

    def append_raw(self, at: int, data: bytes, size: int = -1, *, gather: bool = True) -> bool:
        """Append whole records of a master's log at exactly this offset; False when the log does not end there.

        They are the first `size` bytes of `data`, or all of it.
        They are dispatched gathered with later ones, or with `gather=False` before this returns. Raises OSError when
        there is no room for them.
        """
        if not self.health.writable:
            return False
        try:
            if not self.log.append_raw(at, data if size < 0 else memoryview(data)[:size]):
                return False
        except OSError as error:
            self.health.fail("room", f"no room for the next log file: {error}")
            raise
        if not gather:
            self.dispatcher.offer(at, data)
            try:
                self.dispatch_now()
            finally:
                self.dispatcher.offer(0, b"")
        elif not self._dispatch_due and self._loop is not None:
            self._dispatch_due = True
            self._loop.call_later(_GATHER, self.dispatch_now)
        return True

    def _after_append(self) -> None:
        if self._appender.time_went_back:
            self._appender.time_went_back = False
            self._queue_flusher.lower(self._appender.last_time)
        if not self._held:
            self._commit()
            if not self._dispatch_due:
                self._schedule_dispatch()

    def _commit(self) -> None:
        """Make appended messages readable; with a transient pool this is done at its commit interval."""
        if not self.log.transient:
            self.log.commit()

    def _schedule_dispatch(self) -> None:
        if self._loop is not None:
            self._dispatch_due = True
            self._loop.call_soon(self.dispatch_now)

    def when_flushed(self, end_offset: int, done: FlushDone) -> None:
        """Call `done(True)` once the log is durable up to `end_offset`, `done(False)` if that fails or is too slow.

        All messages of a burst share a flush, which begins when the burst ends.
        """
        if self.when_replicated is not None:
            self._commit()
            self.when_replicated(end_offset, done)
        elif self._held:
            self._flush_due = True
            self.flusher.gather(end_offset, done)
        else:
            self._commit()
            self.flusher.wait(end_offset, done)

    def dispatch_now(self) -> None:
        """End a burst: commit the log, dispatch the appended messages, and call the listeners."""
        self._held = False
        self._dispatch_due = False
        self._appender.moment = 0
        self._commit()
        if self._flush_due:
            self._flush_due = False
            self.flusher.begin()
        if self.log.stored != self._told:
            self._told = self.log.stored
            for listener in self._stored_listeners:
                listener()
        try:
            while self.dispatcher.run():
                pass
            self.health.clear("index")
        except OSError as error:
            self.health.fail("index", f"the index could not be written: {error}")

    def add_dispatch_listener(self, listener: DispatchListener, wants: Wants = always) -> None:
        """Call `listener` with every batch of messages put into their queues.

        Copied messages may be left out of that while it does not want them.
        """
        self.dispatcher.listeners[listener] = wants

    def remove_dispatch_listener(self, listener: DispatchListener) -> None:
        """Stop calling a listener."""
        self.dispatcher.listeners.pop(listener, None)

    def add_stored_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the log has grown, before the new messages are dispatched; replication sends them."""
        self._stored_listeners.append(listener)

    def remove_stored_listener(self, listener: Callable[[], None]) -> None:
        """Stop calling a listener."""
        if listener in self._stored_listeners:
            self._stored_listeners.remove(listener)

    # -- upkeep ---------------------------------------------------------------------------------------------------

    def change_options(self, options: StoreOptions) -> None:
        """Change limits, time-outs and retention at run time; sizes and paths stay."""
        self.options = options
        self.puller.set_options(options)
        self.retention.options = options
        self.flusher.options = options
        self._appender.max_message_size = options.max_message_size

    def truncate(self, end: int) -> None:
        """Cut log, queues, index and checkpoint at `end`, where a record begins, and continue from there.

        Replication calls this when this log diverges from the authoritative one. Blocks until running writes are done.
        Messages after `end` are lost, and callers that wait for their flush fail. A crash on the way leaves all or
        some of them in the log, with queues and index that agree with it.
        """
        self.log.commit()
        if end == self.log.stored:
            return
        if not self.log.is_record(end) and end != self.dispatcher.position:
            raise ValueError(f"no record of the log begins at {end}; it holds {self.log_min} to {self.log_max}")
        self._sync_worker.drain()
        self._file_worker.drain()
        last = max((queue.physical_before(end_before(queue, end)) for queue in self.table), default=-1)
        unit = self.unit_at(last) if last >= 0 else None
        store_time = 0 if unit is None else unit.store_time
        # Lower the checkpoint first: it must never cover messages that replace those after `end`.
        self._queue_flusher.lower(store_time)
        self._durable_end.lower(end)
        self._deleted.lower(end)
        self.log.truncate(end)
        cut_queues(self.env.files, self.table, self._writer, end)
        if self.index is not None:
            cut_index(self.env.files, self.index, end)
        self.flusher.cut(end, store_time)
        self.filler.last_store_time = min(self.filler.last_store_time, store_time)
        self._appender.last_time, self._appender.last_at = store_time, -1
        self.dispatcher.cut(end)
        self.dispatch_now()
        for queue in self.table:
            queue.next_offset = queue.max_offset
        for message in self.dispatcher.pending:  # stored, but not readable yet
            if is_in_queue(message.sys_flag):
                message.queue.next_offset = message.queue_offset + 1
        log.warning("the log was cut at %d", end)
        for listener in self.on_cut:
            listener(end)

    def restart_log(self, clear: Callable[[int], None], position: int) -> None:
        """Drop all messages, queues and index; `clear` makes the log begin again at `position`."""
        self.log.commit()
        self._sync_worker.drain()
        self._file_worker.drain()
        self._queue_flusher.lower(0)
        self._durable_end.lower(0)
        for queue in list(self.table):
            self.table.drop(queue)
        if self.index is not None:
            drop_index(self.env.files, self.index)
        clear(position)
        self.flusher.cut(position, 0)
        self.dispatcher.pending = []
        self.dispatcher.position = position
        self.dispatcher.last_at = self._appender.last_at = -1
        for listener in self.on_cut:
            listener(0)

    def take_over(self) -> None:
        """Continue a log copied from another broker: drop an incomplete last record and resume the queue offsets.

        Call it before the first message is appended; without copied bytes it changes nothing.
        """
        self.dispatch_now()
        whole = self.dispatcher.position == self.log.stored or self.log.stored % self.log.file_size == 0
        if not whole and self.log.stored == self.log.end and "index" not in self.health.reasons:
            self.truncate(self.dispatcher.position)
        for queue in self.table:
            queue.next_offset = max(queue.next_offset, queue.max_offset)
        self._appender.last_time = max(self._appender.last_time, self.filler.last_store_time)

    def delete_topic(self, topic: str) -> None:
        """Drop the queues of a topic; its messages stay in the log until retention deletes them."""
        self.delete_topics({topic})

    def delete_topic_before(self, topic: str, end: int) -> None:
        """The same for a replicated deletion at `end`, to be called when the log is dispatched up to there."""
        if self._deleted.end_of(topic) < end:
            self._drop_queues({topic}, end)

    def unused_topics(self, known: set[str]) -> set[str]:
        """Topics that have queues and are not in `known`."""
        return self.table.topics() - known - _NEVER_UNUSED

    def delete_topics(self, topics: set[str]) -> None:
        """Like `delete_topic`, for several."""
        self.dispatch_now()
        self._drop_queues(topics, self.log.written)

    def _drop_queues(self, topics: set[str], end: int) -> None:
        queues = [queue for queue in self.table if queue.topic in topics]
        if queues:
            self._deleted.add({queue.topic for queue in queues}, end, self.log.min_offset)
        for queue in queues:
            self.table.drop(queue)

    def delete_expired_files(self) -> None:
        """Delete expired log files in the next passes, at any hour."""
        self.retention.manual_passes = MANUAL_PASSES

    def clean_expired_consumequeues(self) -> int:
        """Drop the queues that have no message left in the log."""
        return self.retention.clean_expired_queues(frozenset((SCHEDULE_TOPIC, TIMER_TOPIC)))

    @property
    def log_min(self) -> int:
        return self.log.min_offset

    @property
    def log_max(self) -> int:
        return self.log.end

    @property
    def flushed_offset(self) -> int:
        return self.log.flushed

    @property
    def dispatch_behind(self) -> int:
        """Bytes of the log that are in no queue yet."""
        return max(self.log.end - self.dispatcher.position, 0)

    @property
    def writable(self) -> bool:
        return self.health.writable

    def runtime_info(self) -> dict[str, str]:
        """The store's part of GET_BROKER_RUNTIME_INFO: disk ratios and log offsets."""
        log_ratio, queue_ratio = self.retention.disk_ratios()
        return {
            f"commitLogDiskRatio_{self.layout.commitlog}": str(log_ratio),
            "commitLogDiskRatio": str(log_ratio),
            "consumeQueueDiskRatio": str(queue_ratio),
            "commitLogMinOffset": str(self.log_min),
            "commitLogMaxOffset": str(self.log_max),
        }
