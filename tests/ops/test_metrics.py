"""Prometheus' text format, and the registry that parts add their figures to."""

import asyncio
from collections.abc import Iterator

from ariane.ops.metrics import Collected, Metric, Registry, label_text
from ariane.ops.probes import MOST_SCRAPES, Check, Probes
from tests.ops.scraping import parse, value


def test_labels_of_any_text_are_read_back_by_prometheus() -> None:
    odd = 'a"b\\c\nd é \\n {},='
    registry = Registry()
    registry.gauges("odd", "Odd labels", "name", lambda: {odd: 1.5})
    assert parse(registry.text())["odd"] == [({"name": odd}, 1.5)]
    assert label_text({"a": "b"}) == 'a="b"'


async def test_labels_that_clients_choose_cannot_break_or_fill_a_page() -> None:
    names = {"\ud800 half": 1, "carriage\rreturn": 2, "nul\0": 3, "line\u2028end": 4, "x" * 1_000_000: 5}
    registry = Registry()
    registry.gauges("odd", "Odd labels", "name", lambda: names)
    page = b"".join([piece async for piece in registry.pieces()])
    assert len(page) < 20_000
    found = {labels["name"]: number for labels, number in parse(page.decode())["odd"]}
    assert sorted(found.values()) == [1, 2, 3, 4, 5]
    assert found["carriage\rreturn"] == 2


def test_numbers_are_read_back_by_prometheus() -> None:
    numbers = {"a": 1, "b": 0.1, "c": 1e300, "d": float("inf"), "e": -float("inf"), "f": 2**63}
    registry = Registry()
    registry.gauges("number", "Numbers", "name", lambda: numbers)
    registry.gauge("nothing", "Not a number", lambda: float("nan"))
    found = parse(registry.text())
    assert {labels["name"]: number for labels, number in found["number"]} == numbers
    assert value(found, "nothing") != value(found, "nothing")


def test_several_parts_count_refusals_in_one_family() -> None:
    registry = Registry()
    registry.refusals(lambda: {"no permission": 2})
    registry.refusals(lambda: {"too many": 1, "no permission": 3})
    registry.refusals(dict)
    found = parse(registry.text())["ariane_requests_refused_total"]
    assert found == [({"reason": "no permission"}, 5), ({"reason": "too many"}, 1)]
    assert [metric.kind for metric in registry.metrics] == ["counter"]


class Endless:
    """A part with more rows than anybody waits for; other work ends it."""

    metrics = (Metric("endless_rows", "Rows"),)

    def __init__(self) -> None:
        self.over = False

    def collect(self) -> Collected:
        while not self.over:
            yield None
        yield self.metrics[0], self._rows()

    def _rows(self) -> Iterator[tuple[str, float]]:
        yield "", 1


async def test_the_event_loop_does_other_work_while_a_page_is_made() -> None:
    part = Endless()
    registry = Registry()
    registry.add(part)
    asyncio.get_running_loop().call_later(0.01, setattr, part, "over", True)
    page = b"".join([piece async for piece in registry.pieces()])
    assert b"endless_rows 1" in page


async def test_a_page_leaves_in_pieces() -> None:
    registry = Registry()
    registry.gauges("many", "Many rows", "name", lambda: {f"row {number:09}": number for number in range(20_000)})
    pieces = [piece async for piece in registry.pieces()]
    assert max(map(len, pieces)) < 100_000
    assert b"".join(pieces).decode() == registry.text()


async def test_only_so_many_scrapes_run_at_once_and_one_given_up_counts_no_longer() -> None:
    registry = Registry()
    registry.gauges("many", "Many rows", "name", lambda: {f"row {number:09}": number for number in range(20_000)})
    probes = Probes(registry, list, dict)
    assert (await probes.metrics()).status == 503
    probes.started = True
    under_way = [(await probes.metrics()).body for _ in range(MOST_SCRAPES)]
    for body in under_way:
        assert not isinstance(body, bytes)
        await anext(body)
    assert (await probes.metrics()).status == 503
    for body in under_way:
        assert not isinstance(body, bytes)
        await body.aclose()
    assert (await probes.metrics()).status == 200


async def test_readiness_needs_every_check_and_gives_the_reasons() -> None:
    checks = [Check("registered", True, "with a"), Check("disk", False, "95 % used")]
    probes = Probes(Registry(), lambda: checks, dict)
    assert (await probes.ready()).status == 503
    probes.started = True
    reply = await probes.ready()
    assert reply.status == 503
    assert b'"disk": {"ok": false, "reason": "95 % used"}' in reply.body  # type: ignore[operator]
    checks.pop()
    assert (await probes.ready()).status == 200


def test_a_figure_that_fails_does_not_take_the_others_with_it() -> None:
    registry = Registry()
    registry.gauge("first", "x", lambda: 1)
    registry.gauge("broken", "x", lambda: 1 // 0)
    registry.gauge("last", "x", lambda: 3)
    for _ in range(2):
        assert {line.split()[0] for line in registry.text().splitlines() if line[0] != "#"} == {"first", "last"}
