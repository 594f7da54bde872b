"""Finds the files of a store. Sizes are taken from the files, not from the configuration."""

import logging
from itertools import pairwise
from pathlib import Path

from ariane.env import Files
from ariane.store.layout import Layout, log_names
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.entries import ENTRY, ENTRY_SIZE
from ariane.store.queue.table import QueueTable
from ariane.store.results import StoreDamaged

log = logging.getLogger("ariane.store")


def commitlog_file_size(files: Files, folder: Path, configured: int, notes: list[str]) -> int:
    """The size of the log's files: from their names, or from the length of the only one."""
    names = log_names(files, folder)
    if len(names) > 1:
        size = int(names[1]) - int(names[0])
    elif names:
        size = files.size(folder / names[0])
    else:
        return configured
    return _agreed(size or configured, configured, "log files", notes)


def consumequeue_file_entries(files: Files, layout: Layout, configured: int, notes: list[str]) -> int:
    """The entries in one file of the queues, from the first one found."""
    for topic in files.list(layout.consumequeue):
        for queue in files.list(layout.consumequeue / topic):
            folder = layout.consumequeue / topic / queue
            for name in log_names(files, folder):
                size = files.size(folder / name)
                if size and size % ENTRY_SIZE == 0:
                    return _agreed(size // ENTRY_SIZE, configured, "entries of queue files", notes)
    return configured


def _agreed(found: int, configured: int, what: str, notes: list[str]) -> int:
    if found != configured:
        note = f"the store has {what} of size {found}, the configuration says {configured}: the store's is used"
        notes.append(note)
        log.warning(note)
    return found


def load_queues(files: Files, table: QueueTable) -> None:
    """Find all queues; `find_end` finds their ends."""
    root = table.layout.consumequeue
    for topic in files.list(root):
        for number in files.list(root / topic):
            queue = table.find(topic.encode(), int(number)) if number.isascii() and number.isdigit() else None
            if queue is not None:
                _load_files(files, queue)


def _load_files(files: Files, queue: ConsumeQueue) -> None:
    bases = [int(name) // ENTRY_SIZE for name in log_names(files, queue.folder)]
    for before, after in pairwise(bases):
        if after - before != queue.file_entries:
            raise StoreDamaged(f"{queue.folder} has a gap between its files: rebuild it with `ariane store rebuild`")
    queue.files = bases
    if bases:
        queue.min_offset = bases[0]
        queue.written = queue.max_offset = queue.tail_first = bases[-1] + queue.file_entries


def find_end(queue: ConsumeQueue, physical_limit: int) -> None:
    """Cut the queue after the last valid entry that points before `physical_limit`.

    Valid entries come first in a file: the end is found by bisection. Empty files are removed.
    """
    while queue.files:
        base = queue.files[-1]
        end = _end_in_file(queue, base, physical_limit)
        if end > base or len(queue.files) == 1:
            break
        queue.files.pop()
        queue.reader.remove(queue.path(base))
        queue.written = queue.max_offset = queue.tail_first = base
    if not queue.files:
        return
    queue.written = queue.max_offset = queue.next_offset = queue.tail_first = end
    last = queue.entries(end - 1, 1) if end > base else b""
    physical, size, _ = ENTRY.unpack(last) if last else (-1, 0, 0)
    queue.max_physical = physical + size


def _end_in_file(queue: ConsumeQueue, base: int, physical_limit: int) -> int:
    low, high = base, base + queue.file_entries
    while low < high:
        middle = (low + high) // 2
        raw = queue.entries(middle, 1)
        if len(raw) == ENTRY_SIZE and _is_before(raw, physical_limit):
            low = middle + 1
        else:
            high = middle
    return low


def _is_before(raw: bytes, limit: int) -> bool:
    physical, size, _ = ENTRY.unpack(raw)
    return bool(physical >= 0 and size > 0 and physical < limit)
