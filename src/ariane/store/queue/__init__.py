"""Consume queues: `consumequeue` is one queue, `entries` its format, `table` all queues of a store.

`writer` writes entries to files in a thread; `open_files` bounds the descriptors of readers and writer.
"""

from ariane.store.queue.consumequeue import ConsumeQueue, first_at
from ariane.store.queue.entries import ENTRY_SIZE
from ariane.store.queue.table import QueueTable
from ariane.store.queue.writer import EntriesToWrite, QueueWriter

__all__ = ["ENTRY_SIZE", "ConsumeQueue", "EntriesToWrite", "QueueTable", "QueueWriter", "first_at"]
