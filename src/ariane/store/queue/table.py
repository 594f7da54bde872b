"""All queues of a store."""

import logging
from collections.abc import Callable, Iterator

from ariane.env import Files
from ariane.message import is_valid_name
from ariane.protocol.java import string_hash
from ariane.store.layout import Layout
from ariane.store.queue.consumequeue import KEEP, ConsumeQueue
from ariane.store.queue.entries import ENTRY_SIZE
from ariane.store.queue.open_files import OpenFiles
from ariane.store.queue.writer import EntriesToWrite

log = logging.getLogger("ariane.store")


class QueueTable:
    """The queues by topic and id. `dirty` are those with entries not in a file yet."""

    def __init__(self, layout: Layout, files: Files, file_entries: int, open_files: int) -> None:
        self.layout = layout
        self.files = files
        self.file_entries = file_entries
        self.reader = OpenFiles(files, open_files)
        self.dirty: dict[ConsumeQueue, None] = {}
        self.nowhere = ConsumeQueue("", -1, layout.consumequeue, file_entries, self.reader)  # for impossible names
        self._queues: dict[tuple[bytes, int], ConsumeQueue] = {}
        self.on_created: list[Callable[[ConsumeQueue], None]] = []
        """Called with each new queue."""

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic.encode(), queue_id))

    def find(self, topic: bytes, queue_id: int) -> ConsumeQueue | None:
        """The queue, created if it is new; None when its name must not become a folder."""
        return self._queues.get((topic, queue_id)) or self._create(topic, queue_id)

    def _create(self, topic: bytes, queue_id: int) -> ConsumeQueue | None:
        name = topic.decode(errors="replace")
        if not is_valid_name(name) or queue_id < 0:
            log.warning("a message of topic %r, queue %d has no valid place and is in no queue", name, queue_id)
            return None
        queue = ConsumeQueue(name, queue_id, self.layout.queue(name, queue_id), self.file_entries, self.reader)
        queue.key_hash = string_hash(name + "#")
        self._queues[topic, queue_id] = queue
        for listener in self.on_created:
            listener(queue)
        return queue

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def topics(self) -> set[str]:
        return {queue.topic for queue in self._queues.values()}

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        return [queue for queue in self._queues.values() if queue.topic == topic]

    def drop(self, queue: ConsumeQueue) -> None:
        """Remove a queue; the writer deletes its files."""
        queue.restart()
        queue.dropped = True
        self.reader.doom(queue.folder)
        if len(self.of_topic(queue.topic)) == 1:
            self.reader.doom(queue.folder.parent)
        self._clean(queue)
        self._queues.pop((queue.bytes_topic, queue.queue_id), None)

    def mark(self, queue: ConsumeQueue) -> None:
        """A queue has entries to write."""
        queue.is_dirty = True
        self.dirty[queue] = None

    def _clean(self, queue: ConsumeQueue) -> None:
        queue.is_dirty = False
        self.dirty.pop(queue, None)

    def max_physical(self) -> int:
        return max((queue.max_physical for queue in self._queues.values()), default=-1)

    def memory(self) -> int:
        """Bytes of entries that wait to be written."""
        return sum(queue.unwritten() for queue in self.dirty) * ENTRY_SIZE

    def collect(self, least_entries: int) -> EntriesToWrite:
        """Take the entries of all queues that have at least `least_entries` to write."""
        ready = [queue for queue in self.dirty if queue.unwritten() >= least_entries]
        work = EntriesToWrite(self.reader.doomed)
        self.reader.doomed = []
        for queue in ready:
            first, data = queue.take_unwritten()
            work.add(queue, first, data)
        return work

    def wrote(self, work: EntriesToWrite, keep: int = KEEP) -> None:
        """Note the entries that a finished round has written."""
        for queue, epoch, first, data in work.items:
            if queue.epoch != epoch:
                continue
            queue.wrote(first, len(data) // ENTRY_SIZE, keep)
            self.settle(queue)

    def settle(self, queue: ConsumeQueue) -> None:
        """A queue may have no entries to write any more."""
        if queue.unwritten() == 0:
            self._clean(queue)
