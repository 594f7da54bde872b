"""Puts runs of copied units into their queues and the index in one pass over the bytes, without objects for them."""

from ariane.protocol.native import i64
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from ariane.store.index.index import Index
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.table import QueueTable
from ariane.store.units.hashes import part_hash
from ariane.store.units.scanning import UnitScan


class QuickFill(UnitScan):
    """Does what reading units and `Filler.put` do, and stops before delayed messages, which it leaves to these.

    Idempotent like them: a unit that is in its queue or in the index is not put there again.
    """

    def __init__(self, table: QueueTable, index: Index | None) -> None:
        super().__init__(table)
        self.last_at = -1
        """The log offset of the last unit."""
        self.last_store_time = 0
        self._index = index

    def take(
        self,
        queue: ConsumeQueue,
        queue_offset: i64,
        physical: i64,
        size: i64,
        store_time: i64,
        sys_flag: i64,
        data: bytes,
        start: i64,
        stop: i64,
    ) -> bool:
        if queue.is_schedule:
            return False
        marks = self.marks
        transaction = sys_flag & TRANSACTION_MASK
        if transaction == 0 or transaction == TRANSACTION_COMMIT:
            if queue_offset >= queue.next_offset:  # a promoted slave's own appends continue after the copied messages
                queue.next_offset = queue_offset + 1
            if queue.put(physical, size, marks.tags_code, queue_offset) and not queue.is_dirty:
                self.table.mark(queue)
        if self._index is not None and transaction != TRANSACTION_ROLLBACK:
            unique: i64 = -1
            if marks.unique_end:
                unique = part_hash(queue.key_hash, data, start + marks.unique_at, start + marks.unique_end)
            self._index.put(queue.key_hash, unique, marks.keys, physical, store_time)
        self.last_at = physical
        self.last_store_time = store_time
        return True

    def write(self) -> None:
        """Write what was put into the index."""
        if self._index is not None:
            self._index.write()
