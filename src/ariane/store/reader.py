"""Reads a store: messages by queue, by physical offset and by key; offsets of queues."""

from collections.abc import Iterator
from typing import Final

from ariane.errors import ProtocolError
from ariane.protocol.units import Unit, decode_unit
from ariane.store.index.index import Index
from ariane.store.log.log import Log
from ariane.store.options import StoreOptions
from ariane.store.pull import Puller
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.entries import BLANK_SIZE, ENTRY
from ariane.store.queue.table import QueueTable
from ariane.store.results import GetResult, GetStatus, MessageFilter, QueryResult, StoreCounters
from ariane.store.time_search import entry_time, offset_by_time

_NO_BYTE_LIMIT: Final = 1 << 60  # a small integer to compiled code


class StoreReader:
    """The reading half of a store; `MessageStore` opens and fills what it reads."""

    options: StoreOptions
    log: Log
    table: QueueTable
    index: Index | None
    puller: Puller
    stats: StoreCounters

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        filter: MessageFilter | None = None,
        *,
        max_bytes: int | None = None,
    ) -> GetResult:
        """Messages of a queue from `offset` on."""
        limit = _NO_BYTE_LIMIT if max_bytes is None else max_bytes
        return self.get_from(self.table.get(topic, queue_id), offset, max_count, filter, limit)

    def get_from(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_count: int,
        filter: MessageFilter | None,
        max_bytes: int = _NO_BYTE_LIMIT,
    ) -> GetResult:
        """Like `get`, for a queue already looked up; `None` when there is none."""
        result = self.puller.get(queue, offset, max_count, filter, max_bytes)
        if result.status is GetStatus.FOUND:
            self.stats.get_found += 1
            self.stats.transferred += result.count
        else:
            self.stats.get_missed += 1
        return result

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first offset of a queue; 0 when there is no such queue."""
        queue = self.table.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset after the last message of a queue; 0 when there is no such queue."""
        queue = self.table.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def offset_by_time(self, topic: str, queue_id: int, ms: int) -> int:
        """The offset of the message stored at, or nearest to, a time."""
        queue = self.table.get(topic, queue_id)
        return 0 if queue is None else offset_by_time(self.log, queue, ms)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at a queue offset was stored; -1 when there is none."""
        queue = self.table.get(topic, queue_id)
        return -1 if queue is None else entry_time(self.log, queue, offset)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """When the first message of a queue was stored; -1 when there is none."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def physical_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """The physical offset of the message at a queue offset; 0 when there is none."""
        queue = self.table.get(topic, queue_id)
        entry = None if queue is None else queue.entry(offset)
        return 0 if entry is None else entry[0]

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        """Entries of a queue: log offset, size, tags code."""
        queue = self.table.get(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return []
        return [entry for entry in ENTRY.iter_unpack(queue.entries(offset, count)) if entry[1] != BLANK_SIZE]

    def slice_at(self, physical_offset: int, size: int | None = None) -> memoryview | None:
        """The bytes of the message at a log offset, without a copy; None when no message begins there."""
        if size is None:
            head = self.log.view(physical_offset, 4)
            size = 0 if head is None else int.from_bytes(head, "big", signed=True)
        return self.log.view(physical_offset, size)

    def unit_at(self, physical_offset: int, size: int | None = None) -> Unit | None:
        """The message at a log offset; None when no message begins there."""
        found = self.slice_at(physical_offset, size)
        if found is None:
            return None
        try:
            unit = decode_unit(found)
        except ProtocolError:
            return None
        return unit if unit.physical_offset == physical_offset else None

    def message_at(self, physical_offset: int) -> Unit | None:
        """The message that a client names by its log offset; None unless its queue has it there.

        A body may hold bytes that look like a message: of any topic, and even one that reaches over its neighbours.
        """
        unit = self.unit_at(physical_offset)
        if unit is None:
            return None
        entries = self.queue_entries(unit.topic.decode(errors="replace"), unit.queue_id, unit.queue_offset, 1)
        return unit if entries and entries[0][0] == physical_offset else None

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryResult:
        """Messages with a key stored between two times, newest first. Hashes may collide: the caller checks the key."""
        result = QueryResult()
        if self.index is None:
            return result
        result.last_update_time, result.last_update_offset = self.index.end_time, self.index.end_offset
        most = min(max_count, self.options.max_query_count)
        for offset in self.index.offsets(topic, key, most, begin_ms, end_ms):
            found = self.slice_at(offset)
            if found is not None:
                result.slices.append(found)
        return result

    def queues(self) -> Iterator[tuple[str, int]]:
        """All queues: topic and queue id."""
        for queue in self.table:
            yield queue.topic, queue.queue_id
