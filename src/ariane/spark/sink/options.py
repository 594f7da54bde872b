"""The options of the sink."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ariane.errors import ConfigError
from ariane.message import is_valid_name
from ariane.spark.access import ACCESS_OPTIONS, Access
from ariane.spark.options import SparkOptions

SINK_OPTIONS: Final = (
    "topic", "group", "delivery", "batchBytes", "window", "sendTimeoutMs", "sendRetries", "rate", "checkpointLocation",
    "writeId", "commitTimeoutMs",
)  # fmt: skip


class Delivery(Enum):
    """How often readers of the topic may see a batch that was tried more than once."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True)
class SinkOptions:
    """Where to send, and how."""

    access: Access
    topic: str | None
    group: str | None
    delivery: Delivery
    batch_bytes: int
    window: int
    timeout: float
    retries: int
    rate: int | None  # messages a second of each task
    checkpoint: str | None
    write_id: str | None
    commit_timeout: float = 600.0

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Check everything; ConfigError names what is unknown, malformed or missing."""
        given = SparkOptions.check(options, (*ACCESS_OPTIONS, *SINK_OPTIONS), "the rocketmq sink")
        parsed = cls(
            access=Access.parse(given),
            topic=given.text("topic") or None,
            group=given.text("group") or None,
            delivery=Delivery(given.one_of("delivery", "at-least-once", [kind.value for kind in Delivery])),
            batch_bytes=given.number("batchBytes", 256 << 10, 1024),
            window=given.number("window", 16),
            timeout=given.number("sendTimeoutMs", 10_000) / 1000,
            retries=given.number("sendRetries", 5, 0),
            rate=given.count("rate", None),
            checkpoint=given.text("checkpointLocation") or None,
            write_id=given.text("writeId") or None,
            commit_timeout=given.number("commitTimeoutMs", 600_000) / 1000,
        )
        parsed._check()
        return parsed

    def _check(self) -> None:
        for name, value in (("topic", self.topic), ("group", self.group)):
            if value is not None and not is_valid_name(value):
                raise ConfigError(f"option {name}={value!r}: not a valid name")
        if self.delivery is Delivery.EXACTLY_ONCE and self.checkpoint is None:
            raise ConfigError(
                "option delivery=exactly-once needs option checkpointLocation on the write itself: "
                "what was decided about each batch is kept there"
            )
