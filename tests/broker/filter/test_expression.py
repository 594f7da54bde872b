"""Expressions over properties and JSON bodies, and the guard around filters that read bodies."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import Any

import pytest

from ariane.client.python_filter import translate
from ariane.env import ManualClock
from ariane.filter import BodyFilter, FilterFailed, FilterSyntaxError, GuardedFilter, TimeBudget
from ariane.filter.json_message import JsonMessage
from tests.broker.conftest import Starter
from tests.broker.talk import Talk

ORDER = {"customer": {"country": "SE", "vip": True}, "total": 10.5, "items": [{"sku": "a'1"}], "note": None}


def verdict(expression: str, **properties: str) -> bool:
    return BodyFilter(expression).matches(JsonMessage(properties, json.dumps(ORDER).encode()))


@pytest.mark.parametrize(
    "expression",
    [
        "body.total > 10",
        "body.total >= 10.5 AND tier = 'gold'",
        "body.customer.vip = TRUE",
        "body.customer.country IN ('NO', 'SE')",
        "body.items[0].sku = 'a''1'",
        "body.items IS NOT NULL",
        "body.note IS NULL AND body.items[1].sku IS NULL AND body.customer.name IS NULL AND body.total[0] IS NULL",
        "body = 'a property of this name'",
    ],
)
def test_values_of_the_body_compare_like_properties(expression: str) -> None:
    assert verdict(expression, tier="gold", body="a property of this name")


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b"[" * 100_000, b'"text"', b"[1]"])
def test_a_body_without_the_path_is_unknown(body: bytes) -> None:
    message = JsonMessage({}, body)
    assert not BodyFilter("body.total > 0").matches(message)
    assert BodyFilter("body.total IS NULL").matches(message)


@pytest.mark.parametrize("expression", ["body.a = ", "body.total > > 1", "(body.a", "NULL = body.a", ""])
def test_a_wrong_expression_does_not_compile(expression: str) -> None:
    with pytest.raises(FilterSyntaxError):
        BodyFilter(expression)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('body["total"] > 10 and not properties["tier"] == "x"', True),
        ('5 < body["total"] <= 10.5', True),
        ('body["items"][0]["sku"] == "a\'1"', True),
        ('body["customer"]["country"] not in ["SE"]', False),
        ('body["note"] is None or body["total"] < -1', True),
        ('body["customer"]["vip"] == True', True),
    ],
)
def test_python_becomes_an_expression_with_the_same_meaning(source: str, expected: bool) -> None:
    assert verdict(translate(source), tier="gold") is expected


@pytest.mark.parametrize(
    "source",
    [
        "__import__('os').system('true')",
        "(lambda: True)()",
        "[x for x in body]",
        'body["a"].b == 1',
        'body["a b"] == 1',
        'properties["a OR 1"] == 1',
        'body["a"] == other',
        'f"{body}" == "x"',
        'body["a"] + 1 == 2',
        "not " * 3000 + 'body["a"] == 1',
        "x = 1",
        "",
    ],
)
def test_any_other_python_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="filter"):
        translate(source)


def test_a_group_that_used_up_its_time_stops_and_goes_on_later() -> None:
    clock, failures = ManualClock(), Counter[str]()

    def slow(unit: memoryview) -> bool:
        clock.advance(0.15)
        return True

    filter = GuardedFilter(slow, TimeBudget(0.2, clock.monotonic), clock.monotonic, failures)
    units = [memoryview(bytes(20) + offset.to_bytes(8, "big") + bytes(64)) for offset in range(4)]
    assert [filter.matches_unit(unit) for unit in units] == [True, True, False, False]
    stop = filter.take_stop()
    assert stop is not None
    assert (stop.offset, stop.failure, failures) == (2, "", {"time": 1})
    clock.advance(1)
    assert filter.matches_unit(units[2])
    assert filter.take_stop() is None


def test_a_failing_filter_stops_at_the_message() -> None:
    clock, failures = ManualClock(), Counter[str]()

    def fails(unit: memoryview) -> bool:
        raise FilterFailed("body", "torn")

    filter = GuardedFilter(fails, TimeBudget(1, clock.monotonic), clock.monotonic, failures)
    assert not filter.matches_unit(memoryview(bytes(20) + (7).to_bytes(8, "big") + bytes(64)))
    stop = filter.take_stop()
    assert stop is not None
    assert (stop.offset, stop.failure, failures) == (7, "torn", {"body": 1})


async def test_pulls_return_what_a_local_evaluation_selects(talk: Talk) -> None:
    bodies = [json.dumps({"n": n, "of": {"kind": "ab"[n % 2]}}).encode() for n in range(20)]
    for n, body in enumerate(bodies):
        packed = n % 3 == 0
        await talk.send_ok("orders", zlib.compress(body) if packed else body, sys_flag=int(packed))
    expression = "body.n >= 5 AND body.of.kind = 'a'"
    wanted = [n for n, body in enumerate(bodies) if BodyFilter(expression).matches(JsonMessage({}, body))]
    found = await talk.units("orders", subscription=expression, expression_type="EXPRESSION")
    assert [unit.queue_offset for unit in found] == wanted == [6, 8, 10, 12, 14, 16, 18]


async def test_a_body_that_cannot_be_read_stops_only_its_group(talk_to: Starter) -> None:
    talk = await talk_to()
    await talk.send_ok("orders", b'{"n": 1}')
    await talk.send_ok("orders", b"not zlib", sys_flag=1)
    await talk.send_ok("orders", b'{"n": 1}')
    mine: dict[str, Any] = {"subscription": "body.n = 1", "expression_type": "EXPRESSION"}
    first = await talk.pull("orders", **mine)
    assert (first.code, first.fields["nextBeginOffset"]) == (0, "1")
    refused = await talk.pull("orders", 0, 1, **mine)
    assert refused.code == 1
    assert "failed at offset 1" in (refused.remark or "")
    assert (await talk.pull("orders", 0, 1)).code == 0
    assert (await talk.pull("orders", 0, 1, subscription="*")).code == 0
