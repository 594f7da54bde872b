"""Messages with a delivery time through a running broker whose clock the test moves."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane.broker.unit_copy import properties_of
from ariane.env import ManualClock
from ariane.message import (
    DELIVER_TIME,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TIMER_CANCEL,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OPTION,
    TIMER_OUT_MS,
    TIMER_TOPIC,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import TRANSACTION_COMMIT
from tests.broker.talk import PATIENCE, Talk
from tests.broker.test_delay_and_transactions import after, arrival, clock_of, decision, pass_time, timed_broker


@pytest.fixture
async def timed(tmp_path: Path) -> AsyncIterator[Talk]:
    """A talk with a broker whose clock stands still unless the test moves it."""
    async with Talk.to(timed_broker(tmp_path / "store", ManualClock())) as talk:
        yield talk


def at(talk: Talk, seconds: float) -> str:
    """A time so many seconds from now."""
    return str(clock_of(talk).now_ms() + int(seconds * 1000))


@pytest.mark.parametrize("name", [TIMER_DELIVER_MS, DELIVER_TIME, TIMER_DELAY_MS, TIMER_DELAY_SEC])
async def test_each_way_to_ask_for_a_time_is_kept_and_never_early(timed: Talk, name: str) -> None:
    value = {TIMER_DELAY_MS: "90000", TIMER_DELAY_SEC: "90"}.get(name, at(timed, 90))
    before = clock_of(timed).now_ms()
    await timed.send_ok("orders", b"later", properties=encode_properties({name: value, "colour": "red"}))
    await pass_time(timed, 89.9)
    assert await timed.units("orders") == []
    [unit] = await after(timed, 0.2, "orders")
    assert unit.body == b"later"
    assert unit.store_time - before >= 90_000
    found = properties_of(unit)
    assert found["colour"] == "red"
    assert found[name] == value
    assert REAL_TOPIC not in found
    assert TIMER_OUT_MS not in found


async def test_a_time_that_is_over_delivers_at_once(timed: Talk) -> None:
    await timed.send_ok("orders", b"now", properties=encode_properties({TIMER_DELIVER_MS: at(timed, -5)}))
    assert [unit.body for unit in await timed.units("orders")] == [b"now"]


async def test_a_delay_level_goes_before_a_time(timed: Talk) -> None:
    both = encode_properties({TIMER_DELIVER_MS: at(timed, 3600), "DELAY": "1"})
    await timed.send_ok("orders", b"soon", properties=both)
    assert [unit.body for unit in await after(timed, 1.1, "orders")] == [b"soon"]


@pytest.mark.parametrize("value", ["soon", "-1", "1e9", "1" * 30, "٣"])
async def test_a_time_that_is_none_is_refused(timed: Talk, value: str) -> None:
    answer = await timed.send("orders", properties=encode_properties({TIMER_DELIVER_MS: value}))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert TIMER_DELIVER_MS in (answer.remark or "")
    assert await timed.units("orders") == []


async def test_a_time_too_far_away_is_refused_also_for_a_half_message(timed: Talk) -> None:
    days = str(41 * 24 * 3600)
    answer = await timed.send("orders", properties=encode_properties({TIMER_DELAY_SEC: days}))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "timerMaxDelaySec" in (answer.remark or "")
    half = {TIMER_DELAY_SEC: days, TRANSACTION_PREPARED: "true", PRODUCER_GROUP: "p", UNIQUE_KEY: "k"}
    answer = await timed.send("orders", properties=encode_properties(half), sys_flag=4)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    answer = await timed.send("orders", properties=encode_properties({TIMER_DELAY_SEC: days}), sys_flag=8)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL  # the flag of a committed message, and no half of it


async def test_times_are_refused_where_they_are_switched_off(tmp_path: Path) -> None:
    broker = timed_broker(tmp_path / "store", ManualClock(), timerWheelEnable=False)
    async with Talk.to(broker) as talk:
        answer = await talk.send("orders", properties=encode_properties({TIMER_DELAY_SEC: "5"}))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "timerWheelEnable" in (answer.remark or "")
        asked = await talk.ask(RequestCode.HEART_BEAT, {TIMER_OPTION: ""}, b'{"clientID":"c"}')
        assert asked.fields[TIMER_OPTION] == "false"


async def test_nobody_sends_into_the_topic_of_those_that_wait(timed: Talk) -> None:
    answer = await timed.send(TIMER_TOPIC, b"forged", properties=encode_properties({TIMER_OUT_MS: "1"}))
    assert answer.code == ResponseCode.NO_PERMISSION


async def test_a_committed_transaction_waits_for_its_time(timed: Talk) -> None:
    half = {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: "producers", UNIQUE_KEY: "k", TIMER_DELAY_SEC: "60"}
    sent = await timed.send_ok("orders", b"paid", properties=encode_properties(half), sys_flag=4)
    answer = await timed.ask(RequestCode.END_TRANSACTION, decision(sent, "k", TRANSACTION_COMMIT))
    assert answer.code == 0
    await pass_time(timed, 59)
    assert await timed.units("orders") == []
    assert [unit.body for unit in await after(timed, 1.1, "orders")] == [b"paid"]


async def test_a_cancelled_message_does_not_come(timed: Talk) -> None:
    due = at(timed, 30)
    for key in ("one", "two"):
        await timed.send_ok(
            "orders", key.encode(), properties=encode_properties({UNIQUE_KEY: key, TIMER_DELIVER_MS: due})
        )
    cancel = {TIMER_DELIVER_MS: due, TIMER_CANCEL: "one", UNIQUE_KEY: "three"}
    await timed.send_ok("orders", b"-", properties=encode_properties(cancel))
    assert [unit.body for unit in await after(timed, 30.1, "orders")] == [b"two"]
    assert timed.broker.detours.timers.cancelled == 1
    late = await timed.send("orders", b"-", properties=encode_properties(cancel))
    assert late.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_producer_cancels_messages_of_its_own_topic_alone(timed: Talk) -> None:
    """Its account may write to that topic, and perhaps not to others."""
    due = at(timed, 30)
    await timed.send_ok("orders", b"one", properties=encode_properties({UNIQUE_KEY: "one", TIMER_DELIVER_MS: due}))
    cancel = {TIMER_DELIVER_MS: due, TIMER_CANCEL: "one", UNIQUE_KEY: "two"}
    await timed.send_ok("elsewhere", b"-", properties=encode_properties(cancel))
    assert [unit.body for unit in await after(timed, 30.1, "orders")] == [b"one"]


async def test_what_waits_survives_a_restart_and_comes_once(tmp_path: Path) -> None:
    clock = ManualClock()
    async with Talk.to(timed_broker(tmp_path / "store", clock)) as talk:
        for delay in (10, 7200, 3 * 86400):
            properties = encode_properties({TIMER_DELAY_SEC: str(delay)})
            await talk.send_ok("orders", str(delay).encode(), properties=properties)
        await after(talk, 10.1, "orders")
        assert talk.broker.detours.timers.pending == 2
    clock.advance(7300)
    async with Talk.to(timed_broker(tmp_path / "store", clock)) as talk:
        assert [unit.body for unit in await arrival(talk, "orders", offset=1)] == [b"7200"]
        assert sum(talk.broker.detours.timers.histogram().values()) == 1
        assert talk.broker.detours.timers.running_info()["timerPending"] == "1"


async def test_a_clean_stop_notes_what_was_delivered_last(tmp_path: Path) -> None:
    clock = ManualClock()
    async with Talk.to(timed_broker(tmp_path / "store", clock)) as talk:
        for delay in (10_000, 10_050):
            properties = encode_properties({TIMER_DELAY_MS: str(delay)})
            await talk.send_ok("orders", str(delay).encode(), properties=properties)
        await after(talk, 10.01, "orders")
        await after(talk, 0.1, "orders", offset=1)  # less than a second after the first note
    async with Talk.to(timed_broker(tmp_path / "store", clock)) as talk:
        await pass_time(talk, 5)
        assert talk.broker.detours.timers.pending == 0
        assert len(await talk.units("orders")) == 2


async def test_a_store_that_refuses_makes_a_delivery_late_not_lost(timed: Talk) -> None:
    await timed.send_ok("orders", b"late", properties=encode_properties({TIMER_DELAY_SEC: "1"}))
    timed.broker.store.health.fail("test", "the disk is full")
    await pass_time(timed, 5)
    assert await timed.units("orders") == []
    timed.broker.store.health.clear("test")
    assert [unit.body for unit in await after(timed, 1, "orders")] == [b"late"]


async def test_expired_log_files_do_not_take_what_waits_with_them(tmp_path: Path) -> None:
    clock = ManualClock()
    broker = timed_broker(tmp_path / "store", clock, mappedFileSizeCommitLog=16384, fileReservedTime=1)
    async with Talk.to(broker) as talk:
        await talk.send_ok("orders", b"waits", properties=encode_properties({TIMER_DELAY_SEC: str(10 * 86400)}))
        for _ in range(12):
            await talk.send_ok("fill", b"x" * 4000)
        store = broker.store
        first = store.log_min
        async with asyncio.timeout(PATIENCE):
            while store.log_min == first:
                store.delete_expired_files()
                make_old(tmp_path / "store/commitlog")
                await pass_time(talk, 12)  # the next pass of retention, and flushes
        assert store.log_min > first
        assert store.max_offset(TIMER_TOPIC, 0) == 2
        await pass_time(talk, 10 * 86400)
        async with Talk.beside(broker) as other:  # the first connection was idle for too long
            [unit] = await arrival(other, "orders")
        assert unit.body == b"waits"
        assert store.max_offset("orders", 0) == 1


def make_old(folder: Path) -> None:
    """Make every file look as if it had been written in 1970."""
    for file in folder.iterdir():
        os.utime(file, (0, 0))
