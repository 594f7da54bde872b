"""The expressions of consumer groups: the content of consumerFilter.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ariane.filter.bloom import Bloom
from ariane.filter.errors import FilterBusy, FilterSyntaxError
from ariane.filter.interface import EXPRESSION, SQL92, is_tag_type
from ariane.filter.sql92 import Sql92Filter, compile_kind

PRESUMED_DEAD_MS = 30_000


@dataclass(frozen=True, slots=True)
class Subscription:
    """The expression of a group for a topic; the highest version counts."""

    topic: str
    expression: str
    expression_type: str | None
    version: int


class BloomData(msgspec.Struct, frozen=True, rename="camel"):
    """The bits of one group and topic."""

    bit_num: int
    bit_pos: list[int]


class FilterData(msgspec.Struct, frozen=True, rename="camel"):
    """The expression of one group for one topic, and since and until when it was wanted; field for field Apache's."""

    bloom_filter_data: BloomData | None
    born_time: int
    client_version: int
    consumer_group: str
    dead_time: int
    expression: str
    expression_type: str
    topic: str

    @property
    def dead(self) -> bool:
        """Whether no consumer of the group subscribes with it any more."""
        return self.dead_time >= self.born_time

    @property
    def filter(self) -> Sql92Filter:
        """The compiled expression."""
        return Sql92Filter(self.expression, None)


class _TopicFilters(msgspec.Struct, rename="camel"):
    group_filter_data: dict[str, FilterData]
    topic: str | None = None


class _File(msgspec.Struct, rename="camel"):
    filter_data_by_topic: dict[str, _TopicFilters] = msgspec.field(default_factory=dict)


class ConsumerFilters:
    """The expressions of all groups by topic. Pure state: time comes in with each call, files are the caller's."""

    def __init__(
        self,
        bloom: Bloom,
        clean_after_ms: int = 24 * 3600 * 1000,
        compile: Callable[[str, str], object] = compile_kind,
    ) -> None:
        self.bloom = bloom
        self.clean_after_ms = clean_after_ms
        self._compile = compile
        self._by_topic: dict[str, dict[str, FilterData]] = {}

    def get(self, topic: str, group: str) -> FilterData | None:
        """The expression of a group for a topic, dead or alive."""
        return self._by_topic.get(topic, {}).get(group)

    def of_group(self, group: str) -> list[FilterData]:
        """All expressions of a group."""
        return [groups[group] for groups in self._by_topic.values() if group in groups]

    def register_group(self, group: str, subscriptions: Iterable[Subscription], now_ms: int) -> None:
        """Take over the subscriptions of a heartbeat; expressions that are not among them die."""
        wanted = list(subscriptions)
        for subscription in wanted:
            self.register(group, subscription, now_ms)
        topics = {subscription.topic for subscription in wanted}
        for data in self.of_group(group):
            if data.topic not in topics and not data.dead:
                self._put(replace_time(data, now_ms))

    def register(self, group: str, subscription: Subscription, now_ms: int) -> bool:
        """Take over an expression if it is newer; False when it is not, selects by tags, or does not compile."""
        if is_tag_type(subscription.expression_type) or not subscription.expression:
            return False
        old = self.get(subscription.topic, group)
        if old is None:
            return self._add(group, subscription, now_ms)
        if subscription.version <= old.client_version:
            return self._revive_same_version(old, subscription)
        return self._renew(old, subscription, now_ms)

    def unregister_group(self, group: str, now_ms: int) -> None:
        """The last consumer of a group has gone: all its expressions die."""
        for data in self.of_group(group):
            if not data.dead:
                self._put(replace_time(data, now_ms))

    def clean(self, now_ms: int) -> None:
        """Remove expressions that have been dead for too long."""
        for topic, groups in list(self._by_topic.items()):
            kept = {name: data for name, data in groups.items() if not self._is_over(data, now_ms)}
            if kept:
                self._by_topic[topic] = kept
            else:
                del self._by_topic[topic]

    def dump(self, now_ms: int) -> dict[str, Any]:
        """The content of consumerFilter.json, without what has been dead for too long."""
        self.clean(now_ms)
        topics = {
            topic: {"groupFilterData": {name: _shown(data) for name, data in groups.items()}, "topic": topic}
            for topic, groups in self._by_topic.items()
        }
        return {"filterDataByTopic": topics}

    def load(self, content: Mapping[str, Any], now_ms: int) -> None:
        """Take over the content of consumerFilter.json; ValueError when it has another shape.

        All of it counts as dead until the consumers come back, and none of it counts when the Bloom filter has
        another size now. An expression that does not compile is left out, so its consumer registers it again.
        """
        try:
            file = msgspec.convert(content, _File)
        except msgspec.ValidationError as error:
            raise ValueError(f"not the shape of consumerFilter.json: {error}") from error
        loaded = [data for topic in file.filter_data_by_topic.values() for data in topic.group_filter_data.values()]
        if not all(self._fits(data.bloom_filter_data) for data in loaded):
            return
        self._by_topic = {}
        for data in loaded:
            if _compiles(data.expression, data.expression_type, _compile_known):
                self._put(_presumed_dead(data, now_ms))

    def merge(self, content: Mapping[str, Any], now_ms: int) -> None:
        """Add the expressions of another broker's file that are missing here or newer; ValueError as in `load`."""
        other = ConsumerFilters(self.bloom, self.clean_after_ms, self._compile)
        other.load(content, now_ms)
        for groups in other._by_topic.values():
            for data in groups.values():
                own = self.get(data.topic, data.consumer_group)
                if own is None or own.client_version < data.client_version:
                    self._put(data)

    def _add(self, group: str, subscription: Subscription, now_ms: int) -> bool:
        expression_type = subscription.expression_type or ""
        if not _compiles(subscription.expression, expression_type, self._compile):
            return False
        bits = BloomData(self.bloom.bits, self.bloom.positions(f"{group}#{subscription.topic}"))
        self._put(
            FilterData(
                bloom_filter_data=bits,
                born_time=now_ms,
                client_version=subscription.version,
                consumer_group=group,
                dead_time=0,
                expression=subscription.expression,
                expression_type=expression_type,
                topic=subscription.topic,
            )
        )
        return True

    def _revive_same_version(self, old: FilterData, subscription: Subscription) -> bool:
        if subscription.version < old.client_version or not old.dead:
            return False
        self._put(replace_time(old, 0))
        return True

    def _renew(self, old: FilterData, subscription: Subscription, now_ms: int) -> bool:
        if (old.expression, old.expression_type) == (subscription.expression, subscription.expression_type):
            dead_time = 0 if old.dead else old.dead_time
            self._put(msgspec.structs.replace(old, client_version=subscription.version, dead_time=dead_time))
            return True
        if self._add(old.consumer_group, subscription, now_ms):
            return True
        # The new expression does not compile: pulls must fail instead of filtering by the old one.
        del self._by_topic[old.topic][old.consumer_group]
        return False

    def _put(self, data: FilterData) -> None:
        self._by_topic.setdefault(data.topic, {})[data.consumer_group] = data

    def _fits(self, bits: BloomData | None) -> bool:
        return bits is not None and bits.bit_num == self.bloom.bits and len(bits.bit_pos) == self.bloom.hashes

    def _is_over(self, data: FilterData, now_ms: int) -> bool:
        return data.dead and now_ms - data.dead_time >= self.clean_after_ms


def replace_time(data: FilterData, dead_time: int) -> FilterData:
    """Copy with another time of death; 0 is alive."""
    return msgspec.structs.replace(data, dead_time=dead_time)


def _presumed_dead(data: FilterData, now_ms: int) -> FilterData:
    if data.dead_time != 0:
        return data
    return replace_time(data, max(now_ms - PRESUMED_DEAD_MS, data.born_time))


def _compile_known(expression: str, expression_type: str) -> object:
    return compile_kind(expression, expression_type, None)


def _compiles(expression: str, expression_type: str, compile: Callable[[str, str], object]) -> bool:
    if expression_type not in (SQL92, EXPRESSION):
        return False
    try:
        compile(expression, expression_type)
    except (FilterSyntaxError, FilterBusy):  # the next heartbeat brings it again
        return False
    return True


def _shown(data: FilterData) -> dict[str, Any]:
    """In the order of Apache's file, which shows `dead` although it follows from the times."""
    fields: dict[str, Any] = msgspec.to_builtins(data)
    return {name: fields.get(name, data.dead) for name in sorted([*fields, "dead"])}
