"""Rebuilds queues and index from the log, which is not changed. The old ones stay until the new ones are complete."""

from collections.abc import Callable
from dataclasses import dataclass

from ariane.env import Env, Files
from ariane.store.checkpoint import Checkpoint
from ariane.store.deleted_topics import DeletedTopics
from ariane.store.dispatch import Filler, default_delay_ms
from ariane.store.index.index import Index
from ariane.store.layout import Layout
from ariane.store.offline.reading import Damage, Progress, StoredLog, no_progress
from ariane.store.queue.table import QueueTable
from ariane.store.queue.writer import QueueWriter
from ariane.store.recovery.load import consumequeue_file_entries
from ariane.store.units.reading import Dispatched

_BATCH = 1024
_OPEN_FILES = 256


@dataclass
class Rebuilt:
    """The result of a rebuild, with the damaged parts of the log that it skipped."""

    messages: int = 0
    queues: int = 0
    index_files: int = 0
    damage: list[Damage] | None = None


def rebuild(
    env: Env,
    layout: Layout,
    *,
    file_entries: int = 300_000,
    slots: int = 5_000_000,
    index_entries: int = 20_000_000,
    delay_ms: Callable[[int], int] = default_delay_ms,
    progress: Progress = no_progress,
) -> Rebuilt:
    """Rebuild consumequeue and index of a store. The caller holds its lock."""
    files = env.files
    new = _beside(layout)
    for folder in (new.consumequeue, new.index):
        files.remove_folder(folder)
        files.make_folder(folder)
    entries = consumequeue_file_entries(files, layout, file_entries, [])
    builder = _Builder(env, layout, new, entries, Index(new.index, files, env.clock, slots, index_entries), delay_ms)
    result = builder.run(progress)
    _swap(files, layout, new)
    Checkpoint(builder.last_time, builder.last_time, builder.last_time).save(files, layout.checkpoint)
    return result


def _beside(layout: Layout) -> Layout:
    """The same store, with queues and index in folders beside the real ones."""
    new = Layout(layout.root, layout.commitlog)
    new.consumequeue = layout.root / "consumequeue.new"
    new.index = layout.root / "index.new"
    return new


class _Builder:
    def __init__(
        self, env: Env, layout: Layout, new: Layout, entries: int, index: Index, delay_ms: Callable[[int], int]
    ) -> None:
        self.last_time = 0
        self._stored = StoredLog(env.files, layout)
        self._table = self._stored.table = QueueTable(new, env.files, entries, _OPEN_FILES)
        self._writer = QueueWriter(env.files, layout.root, _OPEN_FILES)
        self._index = index
        self._deleted = DeletedTopics(env.files, layout.deleted_topics)
        self._deleted.load()
        self._filler = Filler(self._table, index, delay_ms)

    def run(self, progress: Progress) -> Rebuilt:
        result = Rebuilt(damage=[])
        assert result.damage is not None
        batch: list[Dispatched] = []
        for found in self._stored.walk(progress):
            if isinstance(found, Damage):
                result.damage.append(found)
            elif found.queue is not self._table.nowhere and not self._is_deleted(found):
                batch.append(found)
            if len(batch) >= _BATCH:
                result.messages += self._put(batch)
        result.messages += self._put(batch)
        result.queues, result.index_files = len(self._table), len(self._index.files)
        self._finish()
        return result

    def _is_deleted(self, message: Dispatched) -> bool:
        return message.physical_offset < self._deleted.end_of(message.topic)

    def _put(self, batch: list[Dispatched]) -> int:
        count = len(batch)
        self._filler.put(batch)
        self.last_time = max((message.store_time for message in batch), default=self.last_time)
        batch.clear()
        if self._table.memory() > 64 << 20:
            self._write()
        return count

    def _write(self) -> None:
        work = self._table.collect(1)
        self._writer.write(work)
        self._table.wrote(work, keep=0)

    def _finish(self) -> None:
        self._write()
        self._writer.sync()
        for file in self._index.files:
            file.file.sync()
        self._index.close()
        self._writer.close()
        self._table.reader.close()


def _swap(files: Files, layout: Layout, new: Layout) -> None:
    """Replace the old folders by the new ones. After a crash in between, recovery rebuilds what is missing."""
    pairs = ((layout.consumequeue, new.consumequeue), (layout.index, new.index))
    for current, replacement in pairs:
        old = current.with_name(current.name + ".old")
        files.remove_folder(old)
        if files.is_folder(current):
            files.rename(current, old)
        files.rename(replacement, current)
    files.sync_folder(layout.root)
    for current, _ in pairs:
        files.remove_folder(current.with_name(current.name + ".old"))
