"""Counters of the store. Each costs an addition; rates are sampled from them."""


class StoreCounters:
    """What went in and out since the store was opened."""

    __slots__ = ("get_found", "get_missed", "put_bytes", "put_count", "put_failed", "transferred")

    def __init__(self) -> None:
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.get_found = 0
        self.get_missed = 0
        self.transferred = 0


class PutCount:
    """Messages stored in one queue since the counters were last read: how many, by how many requests, how large."""

    __slots__ = ("count", "size", "times")

    def __init__(self) -> None:
        self.count = 0
        self.times = 0
        self.size = 0

    def add(self, count: int, size: int) -> None:
        """Count the messages that one request stored."""
        self.count += count
        self.times += 1
        self.size += size
