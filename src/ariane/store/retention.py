"""Deletes old log files: by age at an hour of the day, by disk usage at any time, or on request.

Whether a message was consumed does not matter. Queue and index files are deleted with the log files they point into.
"""

import logging
import time
from collections.abc import Callable
from functools import partial

from ariane.env import Env
from ariane.store.health import Health
from ariane.store.index.index import Index
from ariane.store.layout import Layout
from ariane.store.log.log import Log
from ariane.store.log.log_file import LogFile
from ariane.store.options import StoreOptions
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.entries import ENTRY, ENTRY_SIZE
from ariane.store.queue.table import QueueTable
from ariane.store.worker import Worker

log = logging.getLogger("ariane.store")

FILES_A_PASS = 10
MANUAL_PASSES = 20  # passes that delete expired files after a request


class Doomed:
    """A dropped log file of which readers still hold slices."""

    def __init__(self, file: LogFile, deadline: float) -> None:
        self.file = file
        self.deadline = deadline


class Retention:
    """Runs every `clean_interval`; each pass deletes a few files at most."""

    def __init__(
        self,
        options: StoreOptions,
        env: Env,
        layout: Layout,
        source: Log,
        table: QueueTable,
        index: Index | None,
        health: Health,
        worker: Worker,
    ) -> None:
        self.options = options
        self.manual_passes = 0
        self.keepers: list[Callable[[int], bool]] = []
        """Called with the end of the oldest log file before it is deleted; False keeps the file."""
        self._env = env
        self._layout = layout
        self._log = source
        self._table = table
        self._index = index
        self._health = health
        self._worker = worker  # freeing a gigabyte blocks for a while
        self._cleaned_to = -1
        self._hanging: list[Doomed] = []

    async def run(self) -> None:
        while True:
            await self._env.clock.sleep(self.options.clean_interval.total_seconds())
            try:
                await self.clean()
            except OSError as error:
                log.error("old files could not be deleted: %s", error)

    async def clean(self) -> None:
        """One pass."""
        at_once = self.check_disk()
        if self._is_due():
            await self._delete_log_files(at_once)
        self._release_hanging()
        if self._log.min_offset > self._cleaned_to:
            self._cleaned_to = self._log.min_offset
            await self._clean_queues()
            self._clean_index()

    # -- when -----------------------------------------------------------------------------------------------------

    def disk_ratios(self) -> tuple[float, float]:
        """The used part of the disks of log and queues."""
        files = self._env.files
        return files.usage(self._log.folder).used_ratio, files.usage(self._layout.root).used_ratio

    def check_disk(self) -> bool:
        """Refuse writes on a disk that is nearly full; True when files that are not expired should be deleted too."""
        used = max(self.disk_ratios()) * 100
        if used > self.options.disk_warning_percent:
            limit = self.options.disk_warning_percent
            self._health.fail("disk", f"the disk is {used:.0f} % full, writes stop above {limit} %")
        else:
            self._health.clear("disk")
        return self.options.clean_file_forcibly and used > self.options.disk_clean_forcibly_percent

    def _is_due(self) -> bool:
        if self.manual_passes > 0:
            self.manual_passes -= 1
            return True
        hour = time.localtime(self._env.clock.now_ms() // 1000).tm_hour
        return hour in self.options.delete_hours or max(self.disk_ratios()) * 100 > self.options.disk_max_used_percent

    # -- the log --------------------------------------------------------------------------------------------------

    async def _delete_log_files(self, at_once: bool) -> None:
        """Delete files from the oldest on, without gaps and never the newest."""
        pause = self.options.delete_commitlog_files_interval.total_seconds()
        for count in range(FILES_A_PASS):
            oldest = self._log.expendable()
            if oldest is None or not (at_once or self._is_expired(oldest)):
                return
            if count and pause:
                await self._env.clock.sleep(pause)
            if not all(keeper(self._log.roll(self._log.min_offset)) for keeper in self.keepers):
                return
            self._delete_first()

    def _is_expired(self, file: LogFile) -> bool:
        lives = self.options.file_reserved_time.total_seconds() * 1000
        return self._env.clock.now_ms() >= self._env.files.modified_ms(file.path) + lives

    def _delete_first(self) -> None:
        file = self._log.drop_first()
        if file.close():
            self._remove(file)
        else:
            grace = self.options.destroy_file_forcibly_interval.total_seconds()
            self._hanging.append(Doomed(file, self._env.clock.monotonic() + grace))
            log.warning("%s is still being read; it is removed in %.0f s at the latest", file.path, grace)

    def _release_hanging(self) -> None:
        """Remove dropped files that no reader holds or whose deadline has passed; a reader keeps the bytes."""
        now = self._env.clock.monotonic()
        gone = [doomed for doomed in self._hanging if doomed.file.close() or doomed.deadline <= now]
        for doomed in gone:
            self._hanging.remove(doomed)
            self._remove(doomed.file)

    def _remove(self, file: LogFile) -> None:
        log.info("delete %s", file.path)
        self._worker.submit(partial(self._env.files.remove, file.path))

    # -- queues and index -----------------------------------------------------------------------------------------

    async def _clean_queues(self) -> None:
        pause = self.options.delete_consumequeue_files_interval.total_seconds()
        for queue in self._table:
            deleted = self._clean_queue(queue)
            await self._env.clock.sleep(pause if deleted else 0)

    def _clean_queue(self, queue: ConsumeQueue) -> int:
        deleted = 0
        while len(queue.files) > 1 and self._last_in_file(queue, queue.files[0]) < self._log.min_offset:
            queue.reader.doom(queue.path(queue.files.pop(0)))
            deleted += 1
        queue.correct_min(self._log.min_offset)
        return deleted

    def _last_in_file(self, queue: ConsumeQueue, base: int) -> int:
        raw = queue.entries(base + queue.file_entries - 1, 1)
        found: int = ENTRY.unpack(raw)[0] if len(raw) == ENTRY_SIZE else self._log.min_offset
        return found

    def clean_expired_queues(self, keep: frozenset[str]) -> int:
        """Drop the queues that have no message left in the log."""
        expired = [q for q in self._table if q.topic not in keep and 0 <= q.max_physical < self._log.min_offset]
        for queue in expired:
            log.info("drop queue %s/%d: all its messages are gone", queue.topic, queue.queue_id)
            self._table.drop(queue)
        return len(expired)

    def _clean_index(self) -> None:
        if self._index is None:
            return
        for file in self._index.expired(self._log.min_offset):
            file.close()
            self._worker.submit(partial(self._env.files.remove, file.path))
