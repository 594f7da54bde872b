"""Counters of the store. They cost an addition each; whoever shows rates samples them."""


class StoreStats:
    """What went in and out since the store was opened."""

    __slots__ = ("get_found", "get_missed", "put_bytes", "put_count", "put_failed", "transferred")

    def __init__(self) -> None:
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.get_found = 0
        self.get_missed = 0
        self.transferred = 0
