"""consumerFilter.json and the rules by which expressions come, change, die and are forgotten."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ariane.filter import Bloom, ConsumerFilters, MatchAll, RetryFilter, Subscription

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("apache_registry.json").read_text(encoding="utf-8"))
APACHE = Bloom(20, 64)
HOUR = 3_600_000


def subscription(expression: str = "a > 5", version: int = 1, topic: str = "T", type_: str = "SQL92") -> Subscription:
    return Subscription(topic, expression, type_, version)


@pytest.fixture
def filters() -> ConsumerFilters:
    return ConsumerFilters(APACHE, clean_after_ms=24 * HOUR)


@pytest.mark.parametrize("row", RECORDED["positions"], ids=lambda row: str(row[0]))
def test_bits_are_where_apache_puts_them(row: list[Any]) -> None:
    (error, expected), hashes, bits, positions = row
    bloom = Bloom(error, expected)
    assert (bloom.hashes, bloom.bits) == (hashes, bits)
    assert {name: bloom.positions(name) for name in positions} == positions


def test_the_file_is_written_as_apache_writes_it(filters: ConsumerFilters) -> None:
    apache = RECORDED["file"]["filterDataByTopic"]
    for topic in apache:
        for group, data in apache[topic]["groupFilterData"].items():
            filters.register(group, subscription(data["expression"], data["clientVersion"], topic), data["bornTime"])
    dead = apache["TopicA"]["groupFilterData"]["group2"]["deadTime"]
    filters.unregister_group("group2", dead)
    assert json.dumps(filters.dump(dead)) == json.dumps(RECORDED["file"])


def test_a_file_of_apaches_is_read_and_counts_as_dead_until_consumers_return(filters: ConsumerFilters) -> None:
    now = 2_000_000_000_000
    filters.load(RECORDED["file"], now)
    data = filters.get("TopicA", "group1")
    assert data is not None
    assert data.dead
    assert data.dead_time == now - 30_000
    assert data.filter.matches_message({"a": "6"})
    assert filters.register("group1", subscription("a > 5", data.client_version, "TopicA"), now)
    assert {data.topic: data.dead for data in filters.of_group("group1")} == {"TopicA": False, "TopicB": True}


def test_a_file_made_with_another_bloom_filter_is_not_used() -> None:
    filters = ConsumerFilters(Bloom(20, 32))
    filters.load(RECORDED["file"], 0)
    assert filters.dump(0) == {"filterDataByTopic": {}}


def test_an_expression_in_the_file_that_does_not_compile_is_left_out(filters: ConsumerFilters) -> None:
    file = copy.deepcopy(RECORDED["file"])
    file["filterDataByTopic"]["TopicA"]["groupFilterData"]["group1"]["expression"] = "a >"
    filters.load(file, 0)
    assert filters.get("TopicA", "group1") is None
    assert filters.get("TopicB", "group1") is not None


@pytest.mark.parametrize(
    "content", [{"filterDataByTopic": 5}, {"filterDataByTopic": {"T": {"groupFilterData": {"g": {}}}}}]
)
def test_a_file_of_another_shape_is_an_error(filters: ConsumerFilters, content: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"consumerFilter\.json"):
        filters.load(content, 0)


def test_tags_and_empty_expressions_are_not_kept(filters: ConsumerFilters) -> None:
    assert not filters.register("g", subscription("a", type_="TAG"), 1)
    assert not filters.register("g", subscription("a", type_=""), 1)
    assert not filters.register("g", subscription(""), 1)
    assert not filters.register("g", subscription("a > 5", type_="OTHER"), 1)
    assert filters.get("T", "g") is None


def test_an_expression_that_does_not_compile_is_not_kept(filters: ConsumerFilters) -> None:
    assert not filters.register("g", subscription("a >"), 1)
    assert filters.get("T", "g") is None


def test_a_newer_version_replaces_an_older_one_and_not_the_reverse(filters: ConsumerFilters) -> None:
    assert filters.register("g", subscription("a > 5", version=2), 10)
    assert not filters.register("g", subscription("a > 6", version=1), 20)
    assert not filters.register("g", subscription("a > 6", version=2), 20)
    assert filters.register("g", subscription("a > 7", version=3), 30)
    data = filters.get("T", "g")
    assert data is not None
    assert (data.expression, data.client_version, data.born_time) == ("a > 7", 3, 30)


def test_a_newer_version_of_the_same_expression_keeps_its_birth(filters: ConsumerFilters) -> None:
    filters.register("g", subscription(version=2), 10)
    assert filters.register("g", subscription(version=3), 30)
    data = filters.get("T", "g")
    assert data is not None
    assert (data.client_version, data.born_time) == (3, 10)


def test_a_newer_expression_that_does_not_compile_removes_the_old_one(filters: ConsumerFilters) -> None:
    filters.register("g", subscription(version=2), 10)
    assert not filters.register("g", subscription("a >", version=3), 30)
    assert filters.get("T", "g") is None


def test_what_a_group_no_longer_wants_dies_and_revives_when_wanted_again(filters: ConsumerFilters) -> None:
    filters.register_group("g", [subscription(topic="T"), subscription(topic="U")], 10)
    filters.register_group("g", [subscription(topic="U")], 20)
    assert [(data.topic, data.dead) for data in filters.of_group("g")] == [("T", True), ("U", False)]
    filters.register_group("g", [subscription(topic="T"), subscription(topic="U")], 30)
    assert [(data.topic, data.dead) for data in filters.of_group("g")] == [("T", False), ("U", False)]


def test_the_dead_are_forgotten_after_a_day(filters: ConsumerFilters) -> None:
    filters.register("g", subscription(), 10)
    filters.unregister_group("g", 20)
    filters.clean(20 + 24 * HOUR - 1)
    assert filters.get("T", "g") is not None
    filters.clean(20 + 24 * HOUR)
    assert filters.get("T", "g") is None
    assert filters.dump(0) == {"filterDataByTopic": {}}


def test_a_retried_message_is_filtered_by_the_topic_it_came_from(filters: ConsumerFilters) -> None:
    filters.register("g", subscription("a > 5", topic="T"), 1)
    retry = RetryFilter(MatchAll(), "g", filters)
    assert retry.matches_code(5)
    assert retry.matches_message({"RETRY_TOPIC": "T", "a": "6"})
    assert not retry.matches_message({"RETRY_TOPIC": "T", "a": "5"})
    assert retry.matches_message({"RETRY_TOPIC": "U", "a": "5"})
    assert retry.matches_message({})
