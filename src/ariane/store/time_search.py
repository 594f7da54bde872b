"""Finds a queue offset by store time."""

from ariane.store.log.log import Log
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.units.reading import store_time_of


def entry_time(source: Log, queue: ConsumeQueue, offset: int) -> int:
    """The store time of the message of an entry; -1 when there is none."""
    entry = queue.entry(offset)
    unit = None if entry is None else source.view(entry[0], entry[1])
    return -1 if unit is None else store_time_of(unit)


def offset_by_time(source: Log, queue: ConsumeQueue, ms: int) -> int:
    """The first message stored at `ms`; when there is none, the one stored nearest to it, the older of two equal ones.

    Before the first message this is the first, after the last it is the last.
    """
    low, high = queue.min_offset, queue.max_offset
    if low >= high:
        return 0
    while low < high:
        middle = (low + high) // 2
        if entry_time(source, queue, middle) < ms:
            low = middle + 1
        else:
            high = middle
    return _nearest(source, queue, low, ms)


def _nearest(source: Log, queue: ConsumeQueue, first: int, ms: int) -> int:
    """The nearer to `ms` of entry `first` (the first stored at `ms` or later) and the entry before it."""
    if first == queue.min_offset:
        return first
    if first == queue.max_offset:
        return first - 1
    after = entry_time(source, queue, first) - ms
    before = ms - entry_time(source, queue, first - 1)
    return first - 1 if after and before <= after else first
