"""Results, counters and errors of the store."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from ariane.errors import StoreError


class PutStatus(Enum):
    """The outcome of an append; RocketMQ's PutMessageStatus."""

    OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_FILE_FAILED = "CREATE_MAPEDFILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_TOO_LONG = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGECACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


STORED: Final = frozenset(
    {PutStatus.OK, PutStatus.FLUSH_DISK_TIMEOUT, PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.SLAVE_NOT_AVAILABLE}
)
"""The statuses of messages that are in the log, though perhaps not flushed or replicated as configured."""


class PutResult:
    """The position of a message or of a batch's first; `places` are the physical offsets of all messages of a batch."""

    __slots__ = ("count", "end_offset", "physical_offset", "places", "queue_offset", "size", "status", "store_time")

    def __init__(
        self,
        status: PutStatus,
        physical_offset: int = 0,
        size: int = 0,
        queue_offset: int = 0,
        store_time: int = 0,
        count: int = 1,
        places: list[int] | None = None,
        end_offset: int = -1,
    ) -> None:
        self.places = places
        self.status = status
        self.physical_offset = physical_offset
        self.size = size
        self.queue_offset = queue_offset
        self.store_time = store_time
        self.count = count
        self.end_offset = physical_offset + size if end_offset < 0 else end_offset
        """The log offset after the appended units; `when_flushed` and replication wait for it."""

    def __repr__(self) -> str:
        return f"PutResult({self.status.name}, at {self.physical_offset}, queue offset {self.queue_offset})"


class GetStatus(Enum):
    """The outcome of a pull; RocketMQ's GetMessageStatus."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class GetResult:
    """Messages of one queue, without a copy.

    `slices` hold the units in order; neighbours in the log share a slice, so there may be fewer slices than messages. A
    slice keeps its log file mapped: release it when it is sent.
    """

    __slots__ = (
        "behind",
        "bytes",
        "count",
        "max_offset",
        "min_offset",
        "next_offset",
        "slices",
        "status",
        "suggest_slave",
    )

    def __init__(self, status: GetStatus, next_offset: int, min_offset: int = 0, max_offset: int = 0) -> None:
        self.status = status
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.slices: list[memoryview] = []
        self.count = 0
        self.bytes = 0
        self.behind = 0
        """Bytes of the log after the last message examined."""
        self.suggest_slave = False

    def __repr__(self) -> str:
        return f"GetResult({self.status.name}, {self.count} messages, next {self.next_offset})"


class MessageFilter(Protocol):
    """Which messages a pull wants: first by the tags code of the queue entry, then by the message."""

    @property
    def needs_properties(self) -> bool:
        """False when the tags code decides alone, so that no message is read."""
        ...

    def matches_code(self, tags_code: int) -> bool: ...

    def matches_message(self, properties: bytes) -> bool:
        """Whether the message can match, by its properties."""
        ...

    def matches_unit(self, unit: memoryview) -> bool:
        """Whether the message matches, by the whole of it."""
        ...


@dataclass(slots=True)
class QueryResult:
    """Messages of a key, newest first, and the position of the index."""

    slices: list[memoryview] = field(default_factory=list)
    last_update_time: int = 0
    last_update_offset: int = 0


class StoreCounters:
    """Counters of puts and gets since the store was opened: one addition each; rates are sampled from them."""

    __slots__ = ("get_found", "get_missed", "put_bytes", "put_count", "put_failed", "transferred")

    def __init__(self) -> None:
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.get_found = 0
        self.get_missed = 0
        self.transferred = 0


@dataclass(slots=True)
class RecoveryReport:
    """The result of opening a store."""

    clean: bool
    rebooted: bool = False
    """Whether the machine may have lost power since the store was last open."""
    log_min: int = 0
    log_max: int = 0
    scanned: int = 0
    dispatched: int = 0
    cut: int = 0
    queues: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


class StoreLocked(StoreError):
    """The store is open in another broker."""


class StoreDamaged(StoreError):
    """The files of a store contradict each other in a way that must not be repaired by guessing."""
