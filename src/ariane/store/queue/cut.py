"""Truncates queues to the end of a truncated log, in memory and on disk."""

from pathlib import Path

from ariane.env import Files
from ariane.store.queue.consumequeue import ConsumeQueue, first_at
from ariane.store.queue.entries import ENTRY_SIZE
from ariane.store.queue.table import QueueTable
from ariane.store.queue.writer import QueueWriter


def end_before(queue: ConsumeQueue, limit: int) -> int:
    """The queue offset after the last message before log offset `limit`."""
    if queue.max_physical <= limit:
        return queue.max_offset
    low = max(queue.min_offset, queue.files[0] if queue.files else queue.tail_first)
    end = first_at(queue, low, queue.max_offset, limit)
    while end > low and queue.entry(end - 1) is None:  # blank entries that filled a gap before the dropped ones
        end -= 1
    return end


def cut_queues(files: Files, table: QueueTable, writer: QueueWriter, limit: int) -> None:
    """Drop all entries of messages at log offset `limit` or later, durably: they never reappear.

    No round of the writer may be running.
    """
    cleared: Path | None = None
    for queue in table:
        end = end_before(queue, limit)
        queue.truncate(end)
        queue.next_offset = end
        while len(queue.files) > 1 and queue.files[-1] >= end:
            writer.remove(queue.path(queue.files[-1]))
            table.reader.forget(queue.path(queue.files.pop()))
        if queue.files:
            path = queue.path(queue.files[-1])
            table.reader.forget(path)
            used = min(end - queue.files[-1], queue.file_entries)  # more when the last entries are only in memory
            if files.clear(path, used * ENTRY_SIZE, sync=False):
                cleared = path
        table.settle(queue)
    if cleared is not None:
        files.sync_all(cleared.parent)  # one sync for tens of thousands of queues
