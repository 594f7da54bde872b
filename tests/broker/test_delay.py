"""Delayed messages: never early, never lost, whatever happens between."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from ariane.broker.delay.delivery import IDLE, Delay, due_message, make_delayed
from ariane.broker.unit_copy import packed, properties_of
from ariane.env import ManualClock
from ariane.message import DELAY, HALF_TOPIC, REAL_QUEUE_ID, REAL_TOPIC, SCHEDULE_TOPIC, TAGS, UNIQUE_KEY
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_PREPARED, Unit
from ariane.store.results import PutStatus, QueryResult
from tests.broker.memory_log import MemoryLog

LEVELS = (1_000, 5_000, 10_000)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(clock: ManualClock) -> MemoryLog:
    return MemoryLog(clock, LEVELS)


@pytest.fixture
def delay(clock: ManualClock, log: MemoryLog) -> Delay:
    return Delay(LEVELS, log, log.put, clock)


def message(level: int | str, body: bytes = b"x", sys_flag: int = 0) -> Unit:
    return Unit(b"orders", body, packed({DELAY: str(level), TAGS: "A"}), queue_id=2, sys_flag=sys_flag)


def send(delay: Delay, log: MemoryLog, level: int, body: bytes = b"x") -> None:
    unit = message(level, body)
    delay.rewrite(unit)
    log.put(unit)


def delivered(log: MemoryLog) -> list[bytes]:
    return [unit.body for unit in log.units("orders", 2)]


@pytest.fixture
async def pumping(delay: Delay) -> AsyncIterator[Delay]:
    delay.start()
    yield delay
    await delay.stop()


@pytest.mark.parametrize("turns_later", range(6))
async def test_delivery_stops_in_whatever_turn_of_its_wait(delay: Delay, clock: ManualClock, turns_later: int) -> None:
    delay.start()
    for _ in range(3):
        await asyncio.sleep(0)
    clock.advance(IDLE)
    for _ in range(turns_later):
        await asyncio.sleep(0)
    await asyncio.wait_for(delay.stop(), 30)


async def turns(condition: Callable[[], bool]) -> bool:
    """Let the loop run until something is so; the clock does not move."""
    for _ in range(50):
        if condition():
            return True
        await asyncio.sleep(0)
    return False


def test_a_delayed_message_waits_in_the_queue_of_its_level() -> None:
    unit = message(2)
    assert make_delayed(unit, 3) == 2
    assert (unit.topic, unit.queue_id) == (SCHEDULE_TOPIC.encode(), 1)
    assert properties_of(unit) == {DELAY: "2", TAGS: "A", REAL_TOPIC: "orders", REAL_QUEUE_ID: "2"}


@pytest.mark.parametrize("level", ["0", "-1", "soon", "", "1e3"])
def test_a_level_that_is_none_delays_nothing(level: str) -> None:
    unit = message(level)
    assert make_delayed(unit, 3) == 0
    assert (unit.topic, unit.queue_id) == (b"orders", 2)


def test_a_level_too_high_waits_at_the_highest() -> None:
    unit = message(99)
    assert make_delayed(unit, 3) == 3
    assert properties_of(unit)[DELAY] == "3"


def test_a_half_message_is_not_delayed_but_what_is_committed_is() -> None:
    assert make_delayed(message(1, sys_flag=TRANSACTION_PREPARED), 3) == 0
    assert make_delayed(Unit(HALF_TOPIC.encode(), b"", packed({DELAY: "1"})), 3) == 0
    assert make_delayed(message(1, sys_flag=TRANSACTION_COMMIT), 3) == 1


def test_what_comes_out_is_what_went_in() -> None:
    unit = message(1, sys_flag=3)
    unit.flag, unit.born_time, unit.reconsume_times = 7, 5, 2
    unit.born_host, unit.store_host = b"\x7f\0\0\1\0\0\0\1", b"\x7f\0\0\1\0\0\0\2"
    make_delayed(unit, 3)
    out = due_message(unit)
    assert out is not None
    assert (out.topic, out.queue_id, out.body) == (b"orders", 2, b"x")
    assert (out.sys_flag, out.flag, out.born_time, out.reconsume_times) == (3, 7, 5, 2)
    assert (out.born_host, out.store_host) == (unit.born_host, unit.store_host)


async def test_a_message_is_delivered_when_due_and_not_a_millisecond_earlier(
    pumping: Delay, clock: ManualClock, log: MemoryLog
) -> None:
    send(pumping, log, 1)
    clock.advance(0.999)
    assert not await turns(lambda: bool(delivered(log)))
    clock.advance(0.001)
    assert await turns(lambda: delivered(log) == [b"x"])


async def test_a_short_delay_overtakes_a_long_one(pumping: Delay, clock: ManualClock, log: MemoryLog) -> None:
    send(pumping, log, 3, b"late")
    await turns(lambda: clock.sleepers > 0)
    send(pumping, log, 1, b"soon")
    clock.advance(1)
    assert await turns(lambda: delivered(log) == [b"soon"])
    await turns(lambda: clock.sleepers > 0)
    clock.advance(9)
    assert await turns(lambda: delivered(log) == [b"soon", b"late"])


async def test_more_than_a_batch_is_delivered_in_order(pumping: Delay, clock: ManualClock, log: MemoryLog) -> None:
    bodies = [str(i).encode() for i in range(200)]
    for body in bodies:
        send(pumping, log, 1, body)
    clock.advance(1)
    for _ in range(4):
        await turns(lambda: clock.sleepers > 0)
        clock.advance(0.001)
    assert await turns(lambda: delivered(log) == bodies)


async def test_what_nobody_announced_is_found_within_a_second(
    pumping: Delay, clock: ManualClock, log: MemoryLog
) -> None:
    await turns(lambda: clock.sleepers > 0)
    unit = message(1)
    make_delayed(unit, 3)
    log.put(unit)  # as replication does: past `rewrite`
    clock.advance(IDLE)
    assert await turns(lambda: delivered(log) == [b"x"])


def test_deliveries_go_on_after_a_restart_where_they_stopped(delay: Delay, clock: ManualClock, log: MemoryLog) -> None:
    send(delay, log, 1, b"before")
    send(delay, log, 2, b"after")
    clock.advance(1)
    delay.deliver_due()
    kept = delay.encode()
    restarted = Delay(LEVELS, log, log.put, clock)
    restarted.load(kept)
    clock.advance(4)
    restarted.deliver_due()
    assert delivered(log) == [b"before", b"after"]
    assert restarted.offsets() == {1: 1, 2: 1}


def test_a_level_that_is_configured_again_continues_where_it_was(
    delay: Delay, clock: ManualClock, log: MemoryLog
) -> None:
    send(delay, log, 3)
    clock.advance(10)
    delay.deliver_due()
    shortened = Delay(LEVELS[:2], log, log.put, clock)
    shortened.load(delay.encode())
    restored = Delay(LEVELS, log, log.put, clock)
    restored.load(shortened.encode())
    restored.deliver_due()
    assert delivered(log) == [b"x"]


def test_without_the_offsets_everything_is_delivered_once_more(
    delay: Delay, clock: ManualClock, log: MemoryLog
) -> None:
    send(delay, log, 1)
    clock.advance(1)
    delay.deliver_due()
    Delay(LEVELS, log, log.put, clock).deliver_due()
    assert delivered(log) == [b"x", b"x"]


def keyed(log: MemoryLog, delay: Delay, key: str, body: bytes = b"x", born: int = 1) -> None:
    unit = Unit(b"orders", body, packed({DELAY: "1", UNIQUE_KEY: key}), queue_id=2, born_time=born)
    delay.rewrite(unit)
    log.put(unit)


def test_what_an_earlier_master_has_delivered_is_not_delivered_again(
    delay: Delay, clock: ManualClock, log: MemoryLog
) -> None:
    """Its progress is some seconds old on the slave that is promoted."""
    for key in ("a", "b", "a"):  # a producer that got no answer sends the same message again
        keyed(log, delay, key)
    clock.advance(1)
    delay.deliver_due()
    keyed(log, delay, "c")
    clock.advance(1)
    promoted = Delay(LEVELS, log, log.put, clock)
    promoted.deliver_due()
    assert [properties_of(unit)[UNIQUE_KEY] for unit in log.units("orders", 2)] == ["a", "b", "a", "c"]
    assert promoted.offsets() == {1: 4}


def test_damaged_bytes_in_the_index_stop_no_delivery(
    delay: Delay, clock: ManualClock, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "query", lambda *_: QueryResult([memoryview(b"damaged")]))
    keyed(log, delay, "a")
    clock.advance(1)
    delay.deliver_due()
    assert delivered(log) == [b"x"]


def test_a_message_that_only_looks_like_a_delivered_one_is_delivered(
    delay: Delay, clock: ManualClock, log: MemoryLog
) -> None:
    keyed(log, delay, "a", b"first")
    clock.advance(1)
    delay.deliver_due()
    kept = delay.encode()
    keyed(log, delay, "a", b"second")  # one Message object sent twice keeps its key
    keyed(log, delay, "a", b"first", born=2)
    log.put(Unit(b"orders", b"second", packed({UNIQUE_KEY: "a"}), queue_id=2, born_time=1))
    clock.advance(1)
    promoted = Delay(LEVELS, log, log.put, clock)
    promoted.load(kept)
    promoted.deliver_due()
    assert delivered(log) == [b"first", b"second", b"second", b"first"]


def test_offsets_outside_of_their_queue_go_to_its_nearest_end(delay: Delay, clock: ManualClock, log: MemoryLog) -> None:
    for _ in range(3):
        send(delay, log, 1)
    log.expire(SCHEDULE_TOPIC, 0, 1)
    delay.load(b'{"offsetTable":{1:0,2:7,"9":4}}')
    assert delay.offsets() == {1: 1}


def test_a_refused_delivery_is_tried_again(delay: Delay, clock: ManualClock, log: MemoryLog) -> None:
    send(delay, log, 1)
    clock.advance(1)
    log.refuse = PutStatus.SERVICE_NOT_AVAILABLE
    assert 0 < delay.deliver_due() < 1
    log.refuse = None
    delay.deliver_due()
    assert delivered(log) == [b"x"]


def test_a_broken_entry_is_passed_over(delay: Delay, clock: ManualClock, log: MemoryLog) -> None:
    send(delay, log, 1, b"lost")
    log.lose(0)
    log.put(Unit(SCHEDULE_TOPIC.encode(), b"no topic", packed({DELAY: "1"})))
    log.put(Unit(SCHEDULE_TOPIC.encode(), b"path", packed({DELAY: "1", REAL_TOPIC: "../x", REAL_QUEUE_ID: "0"})))
    log.put(Unit(SCHEDULE_TOPIC.encode(), b"queue", packed({DELAY: "1", REAL_TOPIC: "orders", REAL_QUEUE_ID: "-1"})))
    send(delay, log, 1, b"good")
    clock.advance(1)
    delay.deliver_due()
    assert delivered(log) == [b"good"]
    assert delay.dropped == 4


def test_a_clock_set_back_makes_a_message_late_but_never_early_nor_stuck(log: MemoryLog) -> None:
    clock = SteppedClock()
    log._clock = clock
    delay = Delay(LEVELS, log, log.put, clock)
    send(delay, log, 1)
    clock.step_ms = -3_600_000
    delay.deliver_due()
    assert delivered(log) == []
    clock.advance(0.999)
    delay.deliver_due()
    assert delivered(log) == []
    clock.advance(0.001)
    delay.deliver_due()
    assert delivered(log) == [b"x"]


class SteppedClock(ManualClock):
    """A wall clock that somebody sets."""

    step_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.step_ms


def test_running_info_names_each_level_that_delivered(delay: Delay, clock: ManualClock, log: MemoryLog) -> None:
    send(delay, log, 1)
    send(delay, log, 2)
    clock.advance(1)
    delay.deliver_due()
    assert delay.running_info() == {"scheduleMessageOffset_1": "1,1"}
    assert delay.durable_end() == log.end
