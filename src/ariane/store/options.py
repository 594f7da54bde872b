"""Options of a store. Names follow RocketMQ's MessageStoreConfig; times are durations, sizes are bytes."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Literal

FlushKind = Literal["ASYNC_FLUSH", "SYNC_FLUSH"]


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """Options of a store, checked when created.

    >>> StoreOptions(root=Path("store"), commitlog_file_size=0)
    Traceback (most recent call last):
    ValueError: commitlog_file_size must be at least 4096, not 0
    """

    root: Path
    commitlog: Path | None = None  # default: root/commitlog
    commitlog_file_size: int = 1 << 30
    consumequeue_file_entries: int = 300_000
    index_enabled: bool = True
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000

    flush: FlushKind = "ASYNC_FLUSH"
    sync_flush_timeout: timedelta = timedelta(seconds=5)
    flush_interval: timedelta = timedelta(milliseconds=500)
    flush_least_pages: int = 4
    flush_thorough_interval: timedelta = timedelta(seconds=10)
    transient_store_pool: bool = False
    commit_interval: timedelta = timedelta(milliseconds=200)
    flush_consumequeue_interval: timedelta = timedelta(seconds=1)
    flush_consumequeue_least_pages: int = 2
    flush_consumequeue_thorough_interval: timedelta = timedelta(seconds=60)
    consumequeue_memory: int = 64 << 20  # entries waiting to be written, in all queues
    open_consumequeue_files: int = 256

    max_message_size: int = 4 << 20
    check_crc_on_recover: bool = True
    message_index_safe: bool = False

    file_reserved_time: timedelta = timedelta(hours=72)
    delete_when: str = "04"  # hours of the day, separated by ;
    disk_max_used_percent: int = 75  # above, expired files are deleted at any hour
    disk_clean_forcibly_percent: int = 85  # above, the oldest files are deleted before they expire
    disk_warning_percent: int = 90  # above, writes are refused
    clean_file_forcibly: bool = True
    clean_interval: timedelta = timedelta(seconds=10)
    delete_commitlog_files_interval: timedelta = timedelta(milliseconds=100)
    delete_consumequeue_files_interval: timedelta = timedelta(milliseconds=100)
    destroy_file_forcibly_interval: timedelta = timedelta(seconds=120)

    max_transfer_bytes_memory: int = 256 << 10
    max_transfer_count_memory: int = 32
    max_transfer_bytes_disk: int = 64 << 10
    max_transfer_count_disk: int = 8
    access_message_in_memory_max_ratio: int = 40  # per cent of total_memory
    total_memory: int = field(default_factory=physical_memory)
    max_query_count: int = 64  # maxMsgsNumBatch: the most messages that one key query gives

    delay_ms: Callable[[int], int] | None = None  # delay of a level; None when this store serves no delayed messages

    def __post_init__(self) -> None:
        for option in fields(self):
            self._check(option.name, getattr(self, option.name))
        if self.flush not in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            raise ValueError(f"flush must be ASYNC_FLUSH or SYNC_FLUSH, not {self.flush!r}")
        self._check_hours()

    @staticmethod
    def _check(name: str, value: object) -> None:
        low = _LOWEST.get(name, 1)
        if isinstance(value, int) and not isinstance(value, bool) and value < low:
            raise ValueError(f"{name} must be at least {low}, not {value}")
        if isinstance(value, timedelta) and (value < timedelta(0) or (not value and name not in _MAY_BE_ZERO)):
            raise ValueError(f"{name} must be more than zero, not {value}")

    def _check_hours(self) -> None:
        hours = self.delete_when.split(";")
        if not all(hour.isdigit() and int(hour) < 24 for hour in hours):
            raise ValueError(f"delete_when must be hours of the day separated by ';', not {self.delete_when!r}")

    @property
    def commitlog_folder(self) -> Path:
        return self.commitlog or self.root / "commitlog"

    @property
    def delete_hours(self) -> frozenset[int]:
        return frozenset(int(hour) for hour in self.delete_when.split(";"))

    @property
    def memory_for_messages(self) -> int:
        """Messages at most this many bytes before the end of the log count as being in memory."""
        return int(self.total_memory * (self.access_message_in_memory_max_ratio / 100.0))


_LOWEST = {
    "commitlog_file_size": 4096,
    "index_entries": 2,
    "flush_least_pages": 0,
    "flush_consumequeue_least_pages": 0,
    "consumequeue_memory": 4096,
    "open_consumequeue_files": 2,
    "access_message_in_memory_max_ratio": 0,
}
_MAY_BE_ZERO = {"delete_commitlog_files_interval", "delete_consumequeue_files_interval"}
