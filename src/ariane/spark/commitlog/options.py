"""The options of the commitlog source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ariane.errors import ConfigError
from ariane.spark.options import SparkOptions

SPLIT_BYTES: Final = 64 << 20
MIN_SPLIT: Final = 4096

OPTIONS: Final = (
    "path", "topic", "topicPattern", "startingTimestamp", "endingTimestamp", "through", "brokerName",
    "checkCrc", "failOnDataLoss", "splitBytes", "minPartitions", "maxBytesPerTrigger",
)  # fmt: skip


@dataclass(frozen=True)
class CommitlogOptions:
    """What to read from which store folders."""

    stores: tuple[str, ...]
    topics: tuple[str, ...]
    pattern: "re.Pattern[str] | None"
    start_ms: int | None  # store times from here on
    end_ms: int | None  # and before this one
    by_queue: bool
    broker_name: str | None
    check_crc: bool
    fail: bool
    split: int
    min_partitions: int
    max_bytes: int | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "CommitlogOptions":
        """Check everything; ConfigError names what is unknown, malformed or contradictory."""
        given = SparkOptions.check(options, OPTIONS, "rocketmq-commitlog")
        given.exclusive("topic", "topicPattern")
        given.exclusive("splitBytes", "minPartitions")
        given.required("path")
        by_queue = given.one_of("through", "commitlog", ("commitlog", "consumequeue")) == "consumequeue"
        if by_queue:
            given.exclusive("through", "splitBytes")  # a queue is a task
            given.exclusive("through", "minPartitions")
        start, end = given.milliseconds("startingTimestamp"), given.milliseconds("endingTimestamp")
        if start is not None and end is not None and start > end:
            raise ConfigError(f"options startingTimestamp={start} and endingTimestamp={end} contradict each other")
        return cls(
            stores=given.names("path"),
            topics=given.names("topic"),
            pattern=given.pattern("topicPattern"),
            start_ms=start,
            end_ms=end,
            by_queue=by_queue,
            broker_name=given.text("brokerName") or None,
            check_crc=given.flag("checkCrc", False),
            fail=given.flag("failOnDataLoss", True),
            split=given.number("splitBytes", SPLIT_BYTES, MIN_SPLIT),
            min_partitions=given.number("minPartitions", 1),
            max_bytes=given.count("maxBytesPerTrigger", None, MIN_SPLIT),
        )

    @property
    def by_topic(self) -> bool:
        return bool(self.topics) or self.pattern is not None

    def wants(self, topic: str) -> bool:
        return topic in self.topics or (self.pattern is not None and self.pattern.fullmatch(topic) is not None)
