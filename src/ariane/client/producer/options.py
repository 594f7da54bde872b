"""Options of producers."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from ariane.client.options import MEBIBYTE, ClientKeywords, ClientOptions, require
from ariane.message import AUTO_CREATE_TOPIC, DELAY_LEVELS, TRACE_TOPIC
from ariane.protocol.compression import Compression


class QueueChoice(Enum):
    """How a producer chooses the next queue."""

    ROUND_ROBIN = "round robin"
    MIN_LATENCY = "min latency"


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """Options of producers."""

    send_timeout: float = 3.0
    """Seconds, over all attempts."""
    retries: int = 2
    """Attempts of `send` on other brokers, after the first."""
    async_retries: int = 2
    """Attempts of `submit` on the same broker, after the first."""
    retry_another_broker_when_not_store_ok: bool = False
    max_message_size: int = 4 * MEBIBYTE
    delay_levels: int = DELAY_LEVELS
    """How many delay levels the brokers have (`messageDelayLevel`): a higher `delay_level` is refused."""
    compress_over: int = 4096
    compress_level: int = 5
    compression: Compression = Compression.ZLIB
    create_topic_key: str = AUTO_CREATE_TOPIC
    default_topic_queues: int = 4
    max_in_flight: int = 2048
    """Messages in flight. Further ones wait before they are sent; their time-out begins when they are."""
    max_in_flight_bytes: int = 64 * MEBIBYTE
    when_full: Literal["wait", "raise"] = "wait"
    """What `submit` does at that limit: wait, or raise BufferFull. `send` always waits."""
    batching: bool = False
    """Let messages of one topic that come within `batch_delay` leave as one request. Each has a result of its own."""
    batch_delay: float = 0.002
    """Seconds that a message waits for others."""
    batch_bytes: int = 64 * 1024
    """The size at which a batch leaves without waiting longer."""
    vip_channel: bool = False
    """Send to the broker's second port, two below the first, which Apache's brokers reserve for producers."""
    latency_faults: bool = False
    """Avoid brokers that were slow or failed, for a time that grows with their latency."""
    queue_choice: QueueChoice = QueueChoice.ROUND_ROBIN
    trace: bool = False
    trace_topic: str = TRACE_TOPIC

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "send_timeout", self.send_timeout > 0, "must be positive")
        require(self, "retries", self.retries >= 0, "must not be negative")
        require(self, "async_retries", self.async_retries >= 0, "must not be negative")
        require(self, "max_in_flight", self.max_in_flight > 0, "must be positive")
        require(self, "max_in_flight_bytes", self.max_in_flight_bytes > 0, "must be positive")
        require(self, "when_full", self.when_full in ("wait", "raise"), "must be 'wait' or 'raise'")
        require(self, "batch_delay", 0 <= self.batch_delay <= 1, "must be between 0 and 1 s")
        require(
            self,
            "batch_bytes",
            0 < self.batch_bytes <= self.max_message_size,
            "must be positive and at most max_message_size",
        )
        require(self, "default_topic_queues", self.default_topic_queues > 0, "must be positive")
        require(self, "max_message_size", self.max_message_size > 0, "must be positive")
        require(self, "delay_levels", self.delay_levels > 0, "must be positive")
        require(self, "compress_over", self.compress_over >= 0, "must not be negative")
        least = -1 if self.compression is Compression.ZLIB else 0
        require(self, "compress_level", least <= self.compress_level <= 22, f"must be between {least} and 22")


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
    max_in_flight: int
    max_in_flight_bytes: int
    when_full: Literal["wait", "raise"]
    batching: bool
    batch_delay: float
    batch_bytes: int
    vip_channel: bool
    latency_faults: bool
    queue_choice: QueueChoice
    trace: bool
    trace_topic: str
