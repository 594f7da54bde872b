"""What can be set: frozen, picklable options of each kind of client, and the keywords that their constructors take."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Self, TypedDict

from ariane.client.consumer.allocate import Allocate, averagely
from ariane.message import AUTO_CREATE_TOPIC, DELAY_LEVELS, TRACE_TOPIC
from ariane.protocol.bodies import SubscriptionData
from ariane.protocol.compression import Compression
from ariane.remoting import TlsClient

MEBIBYTE = 1 << 20


class ConsumeFrom(Enum):
    """Where a group without an offset begins."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class Model(Enum):
    """Whether the consumers of a group share the messages, or each gets all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class QueueChoice(Enum):
    """How a producer picks the next queue."""

    ROUND_ROBIN = "round robin"
    MIN_LATENCY = "min latency"


@dataclass(frozen=True)
class Sql:
    """A subscription by SQL92 over properties, e.g. `Sql("amount > 10 AND region = 'eu'")`."""

    expression: str


Expression = str | Sql
"""What to take of a topic: tags (`*`, `TagA || TagB`), or `Sql`."""


def subscription(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """The wire's form of a subscription."""
    if isinstance(expression, Sql):
        return SubscriptionData.build(topic, expression.expression, version, "SQL92")
    return SubscriptionData.build(topic, expression, version)


def split_addresses(addresses: str | Sequence[str] | None) -> tuple[str, ...]:
    """Name servers as a tuple; the environment's NAMESRV_ADDR when none are given.

    >>> split_addresses("a:9876; b:9876")
    ('a:9876', 'b:9876')
    """
    if addresses is None:
        addresses = os.environ.get("NAMESRV_ADDR", "")
    given = addresses.split(";") if isinstance(addresses, str) else addresses
    return tuple(address.strip() for address in given if address.strip())


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """What every client has. Times are seconds."""

    name_servers: str | Sequence[str] | None = None
    """`"a:9876;b:9876"`, a list, or one `http://` address that answers with such a text; else NAMESRV_ADDR."""
    instance_name: str | None = None
    unit_name: str | None = None
    namespace: str = ""
    """Whose topics and groups these are: brokers know them as `namespace%name`, which admins and pull clients say."""
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: TlsClient | None = None
    binary_headers: bool = False
    """Speak RocketMQ's binary headers instead of JSON."""
    api_timeout: float = 3.0
    connect_timeout: float = 3.0
    heartbeat_interval: float = 30.0
    route_interval: float = 30.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "name_servers", split_addresses(self.name_servers))
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key go together")
        for name in ("api_timeout", "connect_timeout", "heartbeat_interval", "route_interval"):
            require(self, name, getattr(self, name) > 0, "must be positive")

    @classmethod
    def of(cls, given: "ClientOptions | None", changes: Any) -> Self:
        """Options from an object, keywords, or both (keywords win)."""
        known = {} if given is None else {one.name: getattr(given, one.name) for one in fields(given)}
        mine = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in known.items() if name in mine} | dict(changes))

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers."""
        return split_addresses(self.name_servers)


def require(options: object, name: str, holds: bool, rule: str) -> None:
    """Raise a ValueError that names the field."""
    if not holds:
        raise ValueError(f"{type(options).__name__}.{name} {rule}, not {getattr(options, name)!r}")


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """What a producer can be told."""

    send_timeout: float = 3.0
    """Over all tries."""
    retries: int = 2
    """Tries on other brokers after the first, of `send`."""
    async_retries: int = 2
    """Tries on the same broker after the first, of `submit`."""
    retry_another_broker_when_not_store_ok: bool = False
    max_message_size: int = 4 * MEBIBYTE
    delay_levels: int = DELAY_LEVELS
    """How many delay levels the brokers have (`messageDelayLevel`): a higher `delay_level` is refused."""
    compress_over: int = 4096
    compress_level: int = 5
    compression: Compression = Compression.ZLIB
    create_topic_key: str = AUTO_CREATE_TOPIC
    default_topic_queues: int = 4
    vip_channel: bool = False
    """Send to the broker's second port, two below the first, which Apache's brokers keep for producers."""
    latency_faults: bool = False
    """Avoid brokers that were slow or failed, for a while that grows with their latency."""
    queue_choice: QueueChoice = QueueChoice.ROUND_ROBIN
    trace: bool = False
    trace_topic: str = TRACE_TOPIC

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "send_timeout", self.send_timeout > 0, "must be positive")
        require(self, "retries", self.retries >= 0, "must not be negative")
        require(self, "async_retries", self.async_retries >= 0, "must not be negative")
        require(self, "default_topic_queues", self.default_topic_queues > 0, "must be positive")
        require(self, "max_message_size", self.max_message_size > 0, "must be positive")
        require(self, "delay_levels", self.delay_levels > 0, "must be positive")
        require(self, "compress_over", self.compress_over >= 0, "must not be negative")
        least = -1 if self.compression is Compression.ZLIB else 0
        require(self, "compress_level", least <= self.compress_level <= 22, f"must be between {least} and 22")


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """What every consumer can be told."""

    model: Model = Model.CLUSTERING
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    consume_timestamp: datetime | None = None
    """For `ConsumeFrom.TIMESTAMP`; half an hour ago when not given."""
    allocate: Allocate = averagely
    offset_folder: Path | None = None
    """Where broadcasting consumers keep their offsets; `~/.rocketmq_offsets` when not given."""
    persist_interval: float = 5.0
    rebalance_interval: float = 20.0
    pull_batch: int = 32
    poll_suspend: float = 15.0
    """How long a broker may hold a pull that finds nothing."""
    error_pause: float = 3.0
    """The longest pause before pulling again after errors."""
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
    """What a push consumer can be told."""

    orderly: bool = False
    threads: int = 20
    """How many listener calls run at the same time: threads for functions, tasks for coroutines."""
    consume_batch: int = 1
    consume_timeout: float = 900.0
    """A message that a listener holds longer is sent back."""
    max_reconsume_times: int = -1
    """-1: 16 times for concurrent listeners, without end for orderly ones."""
    suspend: float = 1.0
    """How long an orderly queue pauses after a failure; kept between 0.01 and 30."""
    pull_interval: float = 0.0
    max_cached_messages_of_topic: int = -1
    max_cached_bytes_of_topic: int = -1
    close_timeout: float = 10.0
    """How long `close` waits for listeners that are at work."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "threads", 1 <= self.threads <= 1000, "must be between 1 and 1000")
        require(self, "consume_batch", 1 <= self.consume_batch <= 1024, "must be between 1 and 1024")
        require(self, "consume_timeout", self.consume_timeout > 0, "must be positive")


@dataclass(frozen=True, kw_only=True)
class LiteOptions(ConsumerOptions):
    """What a lite pull consumer can be told."""

    auto_commit: bool = True
    max_cached_messages_in_all: int = 10_000
    """Over all queues."""


class ClientKeywords(TypedDict, total=False):
    """Keywords of every client; see `ClientOptions`."""

    name_servers: str | Sequence[str] | None
    instance_name: str | None
    unit_name: str | None
    namespace: str
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    tls: TlsClient | None
    binary_headers: bool
    api_timeout: float
    connect_timeout: float
    heartbeat_interval: float
    route_interval: float


class ProducerKeywords(ClientKeywords, total=False):
    """Keywords of producers; see `ProducerOptions`."""

    send_timeout: float
    retries: int
    async_retries: int
    retry_another_broker_when_not_store_ok: bool
    max_message_size: int
    delay_levels: int
    compress_over: int
    compress_level: int
    compression: Compression
    create_topic_key: str
    default_topic_queues: int
    vip_channel: bool
    latency_faults: bool
    queue_choice: QueueChoice
    trace: bool
    trace_topic: str


class ConsumerKeywords(ClientKeywords, total=False):
    """Keywords of consumers; see `ConsumerOptions`."""

    model: Model
    consume_from: ConsumeFrom
    consume_timestamp: datetime | None
    allocate: Allocate
    offset_folder: Path | None
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
