"""The options of the topic source, under the names that users of rocketmq-spark and of Kafka's source know."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ariane.client.options import Expression, Selector, Sql
from ariane.errors import ConfigError
from ariane.extras import MissingExtra
from ariane.message import is_valid_name
from ariane.spark import offsets
from ariane.spark.access import ACCESS_OPTIONS, Access
from ariane.spark.offsets import EARLIEST, LATEST, Offsets
from ariane.spark.options import SparkOptions

log = logging.getLogger("ariane.spark")

TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # a group that every broker has

SOURCE_OPTIONS: Final = (
    "topic", "topicPattern", "group", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "failOnDataLoss", "maxOffsetsPerTrigger", "minPartitions", "subExpression", "subExpressionType", "pullTimeoutMs",
    "pullBatchSize", "commitOffsets", "routeRefreshMs",
)  # fmt: skip
STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "commitOffsets", "routeRefreshMs")
BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp")

Point = int | Offsets
"""EARLIEST, LATEST, or an offset for each queue that is named."""


@dataclass(frozen=True)
class TopicOptions:
    """What to read: topics, range and limits."""

    access: Access
    topics: tuple[str, ...]
    pattern: "re.Pattern[str] | None"
    group: str
    start: Point
    end: Point
    start_ms: int | None
    end_ms: int | None
    fail: bool
    max_offsets: int | None
    min_partitions: int
    expression: Selector
    pull_timeout: float
    pull_batch: int
    commit_offsets: bool
    route_refresh: float

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> "TopicOptions":
        """Check everything; ConfigError names what is unknown, malformed or contradictory."""
        given = SparkOptions.check(options, (*ACCESS_OPTIONS, *SOURCE_OPTIONS), "the rocketmq source")
        _refuse(given, BATCH_ONLY if streaming else STREAM_ONLY, streaming)
        for names in (("topic", "topicPattern"), ("startingOffsets", "startingTimestamp")):
            given.exclusive(*names)
        given.exclusive("endingOffsets", "endingTimestamp")
        parsed = cls(
            access=Access.parse(given),
            topics=_topics(given),
            pattern=given.pattern("topicPattern"),
            group=given.text("group") or TOOLS_GROUP,
            start=_point(given, "startingOffsets", LATEST if streaming else EARLIEST),
            end=_point(given, "endingOffsets", LATEST),
            start_ms=given.milliseconds("startingTimestamp"),
            end_ms=given.milliseconds("endingTimestamp"),
            fail=given.flag("failOnDataLoss", True),
            max_offsets=given.count("maxOffsetsPerTrigger", None),
            min_partitions=given.number("minPartitions", 1),
            expression=_expression(given),
            pull_timeout=given.number("pullTimeoutMs", 20_000) / 1000,
            pull_batch=given.number("pullBatchSize", 8192),
            commit_offsets=given.flag("commitOffsets", "group" in given),
            route_refresh=given.number("routeRefreshMs", 10_000) / 1000,
        )
        parsed._check(given, streaming)
        return parsed

    @classmethod
    def reading(cls, access: Access, timeout: float, topic: str = "") -> "TopicOptions":
        """Options for internal reads of one queue."""
        return cls(
            access, (topic,), None, TOOLS_GROUP, EARLIEST, LATEST, None, None, True, None, 1, "*", timeout, 4096,
            False, 10.0,
        )  # fmt: skip

    def _check(self, given: SparkOptions, streaming: bool) -> None:
        if not is_valid_name(self.group):
            raise ConfigError(f"option group={self.group!r}: not a valid name")
        if self.commit_offsets and "group" not in given and streaming:
            raise ConfigError("option commitOffsets=true needs option group")
        if not streaming and self.start == LATEST:
            raise ConfigError("option startingOffsets=latest reads nothing in a batch")
        if self.end == EARLIEST:
            raise ConfigError("option endingOffsets=earliest reads nothing")
        if self.start_ms is not None and self.end_ms is not None and self.start_ms > self.end_ms:
            raise ConfigError(
                f"options startingTimestamp={self.start_ms} and endingTimestamp={self.end_ms} contradict each other"
            )
        if isinstance(self.end, dict) and EARLIEST in self.end.values():
            raise ConfigError("option endingOffsets: -2 (earliest) is no end")
        if isinstance(self.start, dict) and isinstance(self.end, dict):
            _check_order(self.start, self.end)

    @property
    def filters(self) -> bool:
        """Whether the broker filters messages."""
        return self.expression != "*"

    def wants(self, topic: str) -> bool:
        return topic in self.topics or (self.pattern is not None and self.pattern.fullmatch(topic) is not None)


def _check_order(start: Offsets, end: Offsets) -> None:
    for queue in sorted(start.keys() & end.keys()):
        first, last = start[queue], end[queue]
        if last != LATEST and (first == LATEST or first > last):
            raise ConfigError(
                f"options startingOffsets={first} and endingOffsets={last} contradict each other: {queue}"
            )


def _refuse(given: SparkOptions, names: tuple[str, ...], streaming: bool) -> None:
    for name in names:
        if name in given:
            where = "a stream" if streaming else "a batch read"
            raise ConfigError(f"option {name} has no meaning in {where}")


def _topics(given: SparkOptions) -> tuple[str, ...]:
    topics = given.names("topic")
    if not topics and "topicPattern" not in given:
        raise ConfigError("option topic is required (or topicPattern)")
    for topic in topics:
        if not is_valid_name(topic):
            raise ConfigError(f"option topic={topic!r}: not a valid name")
    return topics


def _point(given: SparkOptions, name: str, default: int) -> Point:
    text = given.text(name)
    words: dict[str, Point] = {"": default, "earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return offsets.parse(text)
    except ValueError as error:
        raise ConfigError(f"option {name}={text!r}: {error}") from None


def _expression(given: SparkOptions) -> Selector:
    text = given.text("subExpression") or "*"
    kind = given.one_of("subExpressionType", "TAG", ("TAG", Sql.kind, Expression.kind))
    if kind == "TAG":
        return text
    _check(text, with_body=kind == Expression.kind)
    return Expression(text) if kind == Expression.kind else Sql(text)


def _check(text: str, *, with_body: bool) -> None:
    """Raise ConfigError for a malformed condition: Apache's broker answers such a pull with all messages."""
    from ariane.filter import FilterSyntaxError

    try:
        from ariane.filter.expression import parse

        parse(text, with_body=with_body)
    except FilterSyntaxError as error:
        raise ConfigError(f"option subExpression={text!r}: {error}") from None
    except (MissingExtra, OSError) as error:  # shipped without the parser or its grammar
        log.warning("option subExpression=%r cannot be checked here, brokers will: %s", text, error)


def tags_of(expression: Selector) -> frozenset[str]:
    """The wanted tags; empty when all are, or when the broker filters by an expression."""
    if not isinstance(expression, str) or expression.strip() in ("", "*"):
        return frozenset()
    return frozenset(tag.strip() for tag in expression.split("||") if tag.strip())
