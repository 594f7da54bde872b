"""Which queue, and which errors are worth another try."""

from random import Random

import pytest

from ariane import Message, MessageQueue, ProducerOptions, QueueChoice
from ariane.client.connect.routes import Route
from ariane.client.producer.broker_faults import AWAY_MS, LATENCY_MS, Faults, away_ms
from ariane.client.producer.queue_choice import QueueChooser, by_hash
from ariane.client.producer.retry import RETRY_CODES, may_retry_elsewhere
from ariane.env import ManualClock
from ariane.errors import (
    AccessDenied,
    ArianeError,
    BrokerRefused,
    ConnectFailed,
    InvalidMessage,
    RequestTimeout,
    RouteMissing,
    SendFailed,
)
from ariane.protocol.bodies import BrokerData, QueueData, TopicRouteData
from ariane.protocol.codes import ResponseCode


def route(*brokers: str, queues: int = 2, order: str | None = None) -> Route:
    data = TopicRouteData(
        [QueueData(name, queues, queues, 6) for name in brokers],
        [BrokerData("c", name, {0: f"{name}:1"}) for name in brokers],
        order_topic_conf=order,
    )
    return Route.of("T", data)


def chooser(clock: ManualClock, **options: object) -> QueueChooser:
    return QueueChooser(ProducerOptions(name_servers="x:1", **options), clock, Random(7))


def test_the_start_is_random_and_then_it_goes_round() -> None:
    starts = set()
    for seed in range(30):
        pick = QueueChooser(ProducerOptions(name_servers="x:1"), ManualClock(), Random(seed))
        queues = [pick.choose(route("a", "b"), None) for _ in range(8)]
        assert queues[:4] == queues[4:]
        starts.add(queues[0])
    assert len(starts) == 4


def test_another_try_goes_to_another_broker_if_there_is_one() -> None:
    pick = chooser(ManualClock())
    assert {pick.choose(route("a", "b"), "a").broker_name for _ in range(10)} == {"b"}
    assert {pick.choose(route("a"), "a").broker_name for _ in range(10)} == {"a"}


@pytest.mark.parametrize(("latency", "away"), list(zip(LATENCY_MS, AWAY_MS, strict=True)))
def test_a_slow_broker_is_left_alone_for_as_long_as_the_table_says(latency: int, away: int) -> None:
    assert away_ms(latency) == away
    clock = ManualClock()
    faults = Faults(clock)
    faults.note("a", latency, failed=False)
    if away:
        clock.advance(away / 1000 - 0.001)
        assert not faults.is_available("a")
        clock.advance(0.002)
    assert faults.is_available("a")


def test_a_failed_broker_counts_as_one_of_thirty_seconds() -> None:
    clock = ManualClock()
    faults = Faults(clock)
    faults.note("a", 1, failed=True)
    clock.advance(599)
    assert not faults.is_available("a")
    clock.advance(2)
    assert faults.is_available("a")


def test_with_fault_tolerance_sick_brokers_are_avoided_and_the_least_bad_is_used_when_all_are_sick() -> None:
    clock = ManualClock()
    pick = chooser(clock, latency_faults=True)
    pick.note("a", 10, failed=True)
    assert {pick.choose(route("a", "b"), None).broker_name for _ in range(10)} == {"b"}
    pick.note("b", 20_000, failed=False)
    assert {pick.choose(route("a", "b"), None).broker_name for _ in range(10)} == {"a"}
    clock.advance(700)
    assert {pick.choose(route("a", "b"), None).broker_name for _ in range(10)} == {"a", "b"}


def test_without_fault_tolerance_latency_changes_nothing() -> None:
    pick = chooser(ManualClock())
    pick.note("a", 60_000, failed=True)
    assert {pick.choose(route("a", "b"), None).broker_name for _ in range(10)} == {"a", "b"}


def test_the_least_latency_wins_and_equals_take_turns() -> None:
    pick = chooser(ManualClock(), queue_choice=QueueChoice.MIN_LATENCY)
    pick.note("a", 12, failed=False)
    pick.note("b", 3, failed=False)
    pick.note("c", 3.4, failed=False)
    chosen = [pick.choose(route("a", "b", "c"), None) for _ in range(8)]
    assert {queue.broker_name for queue in chosen} == {"b", "c"}
    assert chosen[:4] == chosen[4:]
    pick.note("b", 50, failed=False)
    assert {pick.choose(route("a", "b", "c"), None).broker_name for _ in range(8)} == {"c"}
    assert pick.choose(route("a", "b", "c"), "c").broker_name == "a"


@pytest.mark.parametrize(("key", "index"), [("order-1", 2), ("", 0), (7, 3), (-7, 3), (1 << 40, 0), ("日本", 3)])
def test_equal_keys_go_to_equal_queues_as_in_java(key: str | int, index: int) -> None:
    queues = [MessageQueue("T", "a", i) for i in range(4)]
    assert by_hash(key)(queues, Message("T", b"x")).queue_id == index


def test_routes_give_write_queues_of_masters_that_permit_it_and_read_queues_of_all() -> None:
    data = TopicRouteData(
        [QueueData("b", 2, 1, 6), QueueData("a", 1, 1, 6), QueueData("readonly", 1, 1, 4), QueueData("slave", 1, 1, 6)],
        [BrokerData("c", name, {0: "x"}) for name in ("a", "b", "readonly")] + [BrokerData("c", "slave", {1: "y"})],
    )
    found = Route.of("T", data)
    assert [(q.broker_name, q.queue_id) for q in found.write_queues] == [("a", 0), ("b", 0)]
    assert sorted((q.broker_name, q.queue_id) for q in found.read_queues) == [
        ("a", 0),
        ("b", 0),
        ("b", 1),
        ("readonly", 0),
        ("slave", 0),
    ]


def test_an_order_configuration_decides_where_to_write() -> None:
    found = route("a", "b", order="b:3;a:1")
    assert [(q.broker_name, q.queue_id) for q in found.write_queues] == [("b", 0), ("b", 1), ("b", 2), ("a", 0)]


def refused(code: int) -> BrokerRefused:
    return BrokerRefused(code, "", "x:1", "")


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectFailed("x"), True),
        (SendFailed("x"), True),
        (RequestTimeout("x"), True),
        (RouteMissing("x"), True),
        (InvalidMessage("x"), False),
        (AccessDenied(ResponseCode.SYSTEM_ERROR, "", "x:1", ""), False),
        *[(refused(code), True) for code in RETRY_CODES],
        *[(refused(code), False) for code in ResponseCode if code not in RETRY_CODES],
    ],
)
def test_which_errors_are_worth_another_broker(error: ArianeError, again: bool) -> None:
    assert may_retry_elsewhere(error) is again


def test_the_codes_worth_another_broker_are_those_of_apaches_client() -> None:
    assert sorted(RETRY_CODES) == [1, 14, 16, 17, 204, 205]
