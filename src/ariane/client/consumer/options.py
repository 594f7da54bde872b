"""Options of consumers, and their subscriptions."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

from ariane.client.consumer.allocate import Allocate, averagely
from ariane.client.options import (
    MEBIBYTE,
    ClientKeywords,
    ClientOptions,
    Selector,
    require,
    text_and_kind,
    uses_filter_server,
)
from ariane.message import TRACE_TOPIC
from ariane.protocol.bodies import SubscriptionData


class ConsumeFrom(Enum):
    """Where a group without an offset starts."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class Model(Enum):
    """Whether the consumers of a group share the messages (clustering) or each gets all (broadcasting)."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


def subscription(topic: str, expression: Selector, version: int) -> SubscriptionData:
    """A subscription as it is sent to brokers."""
    text, kind = text_and_kind(expression)
    built = SubscriptionData.build(topic, text, version, kind)
    built.class_filter_mode = uses_filter_server(expression)
    return built


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """Options of all consumers."""

    model: Model = Model.CLUSTERING
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    consume_timestamp: datetime | None = None
    """For `ConsumeFrom.TIMESTAMP`; half an hour ago when not given."""
    allocate: Allocate = averagely
    offset_folder: Path | str | None = None
    """Where broadcasting consumers keep their offsets; `~/.rocketmq_offsets` when not given."""
    persist_interval: float = 5.0
    rebalance_interval: float = 20.0
    pull_batch: int = 32
    poll_suspend: float = 15.0
    """Seconds for which a broker may hold a pull that finds nothing."""
    error_pause: float = 3.0
    """The longest pause, in seconds, before the next pull after errors."""
    max_cached_messages: int = 1000
    max_cached_bytes: int = 100 * MEBIBYTE
    max_span: int = 2000
    trace: bool = False
    trace_topic: str = TRACE_TOPIC

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("persist_interval", "rebalance_interval", "poll_suspend", "error_pause"):
            require(self, name, getattr(self, name) > 0, "must be positive")
        for name in ("max_cached_messages", "max_cached_bytes", "max_span"):
            require(self, name, getattr(self, name) >= 1, "must be positive")
        require(self, "pull_batch", 1 <= self.pull_batch <= 1024, "must be between 1 and 1024")


@dataclass(frozen=True, kw_only=True)
class PushOptions(ConsumerOptions):
    """Options of a push consumer."""

    orderly: bool = False
    threads: int = 20
    """How many listener calls run at the same time: threads for functions, tasks for coroutines."""
    consume_batch: int = 1
    consume_timeout: float = 900.0
    """Seconds after which a message whose listener call still runs is sent back."""
    max_reconsume_times: int = -1
    """-1: 16 for concurrent listeners, no limit for orderly ones."""
    suspend: float = 1.0
    """Seconds for which an orderly queue pauses after a failure; clamped to 0.01 to 30."""
    pull_interval: float = 0.0
    max_cached_messages_of_topic: int = -1
    max_cached_bytes_of_topic: int = -1
    close_timeout: float = 10.0
    """Seconds for which `close` waits for running listener calls."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "threads", 1 <= self.threads <= 1000, "must be between 1 and 1000")
        require(self, "consume_batch", 1 <= self.consume_batch <= 1024, "must be between 1 and 1024")
        require(self, "consume_timeout", self.consume_timeout > 0, "must be positive")


@dataclass(frozen=True, kw_only=True)
class LiteOptions(ConsumerOptions):
    """Options of a lite pull consumer."""

    auto_commit: bool = True
    max_cached_messages_in_all: int = 10_000
    """Messages cached of all queues together."""


class ConsumerKeywords(ClientKeywords, total=False):
    """Keywords of consumers; see `ConsumerOptions`."""

    model: Model
    consume_from: ConsumeFrom
    consume_timestamp: datetime | None
    allocate: Allocate
    offset_folder: Path | str | None
    persist_interval: float
    rebalance_interval: float
    pull_batch: int
    poll_suspend: float
    error_pause: float
    max_cached_messages: int
    max_cached_bytes: int
    max_span: int
    trace: bool
    trace_topic: str


class PushKeywords(ConsumerKeywords, total=False):
    """Keywords of push consumers; see `PushOptions`."""

    orderly: bool
    threads: int
    consume_batch: int
    consume_timeout: float
    max_reconsume_times: int
    suspend: float
    pull_interval: float
    max_cached_messages_of_topic: int
    max_cached_bytes_of_topic: int
    close_timeout: float


class LiteKeywords(ConsumerKeywords, total=False):
    """Keywords of lite pull consumers; see `LiteOptions`."""

    auto_commit: bool
    max_cached_messages_in_all: int
