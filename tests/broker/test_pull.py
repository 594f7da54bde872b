"""Pulling: what is found, where the next pull begins, and how a pull waits."""

import asyncio
from typing import Any

import pytest

from ariane.env import Env, ManualClock
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.units import decode_units
from tests.broker.conftest import Starter
from tests.broker.talk import Talk, pull_fields, settled

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


def offsets(answer: Command) -> tuple[int, int, int]:
    f = answer.fields
    return int(f["nextBeginOffset"]), int(f["minOffset"]), int(f["maxOffset"])


async def filled(talk: Talk, count: int = 5, topic: str = "orders") -> None:
    for i in range(count):
        await talk.send_ok(topic, b"%d" % i, properties=f"TAGS\x01{'AB'[i % 2]}\x02n\x01{i}\x02")


async def test_messages_come_with_the_offsets_around_them(talk: Talk) -> None:
    await filled(talk)
    answer = await talk.pull("orders", 0, 1, max_msg_nums=2)
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert [u.body for u in decode_units(answer.body)] == [b"1", b"2"]
    assert offsets(answer) == (3, 0, 5)
    assert answer.fields["suggestWhichBrokerId"] == "0"


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        (5, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 5),
        (6, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 5),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
        (1 << 60, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 5),
    ],
)
async def test_a_pull_beside_the_queue_is_sent_where_the_messages_are(
    talk: Talk, offset: int, code: int, remark: str, next_offset: int
) -> None:
    await filled(talk)
    answer = await talk.pull("orders", 0, offset)
    assert (answer.code, answer.remark) == (code, remark)
    assert offsets(answer) == (next_offset, 0, 5)


async def test_an_empty_queue_gives_nothing_and_begins_at_zero(talk: Talk) -> None:
    await talk.send_ok("orders")
    assert (await talk.pull("orders", 1)).code == ResponseCode.PULL_NOT_FOUND
    moved = await talk.pull("orders", 1, 7)
    assert moved.code == ResponseCode.PULL_OFFSET_MOVED
    assert offsets(moved)[0] == 0


async def test_a_moved_offset_is_noted_for_operators(talk: Talk) -> None:
    await filled(talk)
    await talk.pull("orders", 0, 99)
    [event] = await talk.units("OFFSET_MOVED_EVENT")
    assert b'"consumerGroup":"consumers"' in event.body
    assert b'"offsetRequest":99' in event.body


@pytest.mark.parametrize("wanted", [0, -5, 1])
async def test_one_message_is_never_too_much(talk: Talk, wanted: int) -> None:
    await filled(talk)
    assert len(await talk.units("orders", max_msg_nums=wanted)) == 1


async def test_unknown_topics_queues_and_groups_are_refused(talk_to: Starter) -> None:
    talk = await talk_to(autoCreateSubscriptionGroup=False)
    await talk.send_ok("orders")
    assert (await talk.pull("orders")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    known: dict[str, Any] = {"consumer_group": "TOOLS_CONSUMER"}
    assert (await talk.pull("nowhere", **known)).code == ResponseCode.TOPIC_NOT_EXIST
    for queue_id in (-1, 4, 1 << 30):
        answer = await talk.pull("orders", queue_id, **known)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith(f"queueId[{queue_id}] is illegal, topic:[orders]")


async def test_a_topic_without_read_permission_gives_nothing(talk: Talk) -> None:
    await talk.send_ok("orders")
    config = talk.broker.topics.get("orders")
    assert config is not None
    config.perm = 2
    answer = await talk.pull("orders")
    assert (answer.code, answer.remark) == (16, "the topic[orders] pulling message is forbidden")


async def test_a_group_may_be_stopped_from_consuming(talk: Talk) -> None:
    await talk.send_ok("orders")
    await talk.units("orders")
    talk.broker.groups.disable("consumers")
    answer = await talk.pull("orders")
    assert (answer.code, answer.remark) == (16, "subscription group no permission, consumers")


# Subscriptions.


async def test_tags_in_the_pull_filter_it(talk: Talk) -> None:
    await filled(talk)
    assert [u.body for u in await talk.units("orders", subscription="B")] == [b"1", b"3"]
    assert len(await talk.units("orders", subscription="A || B")) == 5
    nothing = await talk.pull("orders", subscription="C")
    assert (nothing.code, nothing.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert offsets(nothing)[0] == 5


async def test_sql_in_the_pull_filters_it(talk: Talk) -> None:
    await filled(talk)
    found = await talk.units("orders", subscription="n > 1 AND TAGS = 'B'", expression_type="SQL92")
    assert [u.body for u in found] == [b"3"]


@pytest.mark.parametrize(("text", "kind"), [("||", "TAG"), ("n >", "SQL92"), ("", "SQL92"), ("x", "REGEX")])
async def test_an_expression_that_is_none_is_refused(talk: Talk, text: str, kind: str) -> None:
    await talk.send_ok("orders")
    answer = await talk.pull("orders", subscription=text, expression_type=kind)
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_sql_needs_the_option(talk_to: Starter) -> None:
    talk = await talk_to(enablePropertyFilter=False)
    await talk.send_ok("orders")
    answer = await talk.pull("orders", subscription="n > 1", expression_type="SQL92")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "The broker does not support consumer to filter message by SQL92"
    talk.broker.change_options(talk.broker.options.updated("enablePropertyFilter", "true"))
    assert (await talk.pull("orders", subscription="n > 1", expression_type="SQL92")).code != 1


async def test_without_a_subscription_the_heartbeat_decides(talk: Talk) -> None:
    await filled(talk)
    by_heartbeat: dict[str, Any] = {"sys_flag": 0, "subscription": None}
    assert (await talk.pull("orders", **by_heartbeat)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    await talk.heartbeat("consumers", {"orders": "A"}, version=5)
    assert [u.body for u in await talk.units("orders", **by_heartbeat, sub_version=5)] == [b"0", b"2", b"4"]
    assert (await talk.pull("orders", **by_heartbeat, sub_version=6)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    await talk.send_ok("other")
    assert (await talk.pull("other", **by_heartbeat)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST


async def test_an_sql_subscription_of_the_heartbeat_is_compiled_or_refused(talk: Talk) -> None:
    await filled(talk)
    by_heartbeat: dict[str, Any] = {"sys_flag": 0, "subscription": None}
    await talk.heartbeat("consumers", {"orders": "n >= 3"}, version=1, expression_type="SQL92")
    assert [u.body for u in await talk.units("orders", **by_heartbeat)] == [b"3", b"4"]
    await talk.heartbeat("broken", {"orders": "n >= >= 3"}, version=1, expression_type="SQL92")
    answer = await talk.pull("orders", consumer_group="broken", **by_heartbeat)
    assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST


async def test_a_group_that_may_not_broadcast_does_not(talk: Talk) -> None:
    await filled(talk)
    await talk.heartbeat("consumers", {"orders": "*"}, model="BROADCASTING")
    by_heartbeat: dict[str, Any] = {"sys_flag": 0, "subscription": None}
    assert (await talk.pull("orders", **by_heartbeat)).code == 0
    config = talk.broker.groups.get("consumers")
    assert config is not None
    config.consume_broadcast_enable = False
    answer = await talk.pull("orders", **by_heartbeat)
    assert (answer.code, answer.remark) == (16, "the consumer group[consumers] can not consume by broadcast way")


# Waiting.


async def test_a_waiting_pull_is_woken_by_the_message(talk: Talk) -> None:
    await talk.send_ok("orders", b"old")
    pull = asyncio.ensure_future(
        talk.pull("orders", 0, 1, sys_flag=SUSPEND | SUBSCRIPTION, suspend_timeout_millis=15_000)
    )
    await settled(lambda: len(talk.broker.longpoll))
    await talk.send_ok("orders", b"new")
    answer = await pull
    assert [u.body for u in decode_units(answer.body)] == [b"new"]
    assert len(talk.broker.longpoll) == 0


async def test_a_large_pull_is_answered_at_once_instead_of_being_kept(talk: Talk) -> None:
    await talk.send_ok("orders", b"old")
    fields = pull_fields("orders", 0, 1, sys_flag=SUSPEND | SUBSCRIPTION, suspend_timeout_millis=10**12)
    answer = await talk.ask(RequestCode.PULL_MESSAGE, fields, bytes(1 << 20))
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert len(talk.broker.longpoll) == 0


async def test_one_message_wakes_all_who_wait_for_it_and_nobody_else(talk: Talk) -> None:
    await talk.send_ok("orders", b"old")

    def waiting(queue_id: int, offset: int, tags: str) -> "asyncio.Future[Command]":
        fields: dict[str, Any] = {"sys_flag": 6, "suspend_timeout_millis": 15_000, "subscription": tags}
        return asyncio.ensure_future(talk.pull("orders", queue_id, offset, **fields))

    same_queue = [waiting(0, 1, "*") for _ in range(5)] + [waiting(0, 1, "X || Y")]
    others = [waiting(0, 1, "other"), waiting(1, 0, "*")]
    await settled(lambda: len(talk.broker.longpoll) == 8)
    await talk.send_ok("orders", b"new", properties="TAGS\x01X\x02")
    answers = await asyncio.gather(*same_queue)
    assert {a.code for a in answers} == {0}
    assert len(talk.broker.longpoll) == 2
    assert not any(o.done() for o in others)
    for other in others:
        other.cancel()


async def test_an_expression_sleeps_through_messages_it_does_not_want_but_moves_past_them(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock))
    await talk.send_ok("orders")
    fields: dict[str, Any] = {"subscription": "n = 5", "expression_type": "SQL92", "suspend_timeout_millis": 60_000}
    pull = asyncio.ensure_future(talk.pull("orders", 0, 1, sys_flag=6, **fields))
    await settled(lambda: len(talk.broker.longpoll))
    await talk.send_ok("orders", properties="n\x014\x02")
    assert len(talk.broker.longpoll) == 1
    await talk.pass_time(clock, 6)
    skipped = await pull
    assert (skipped.code, offsets(skipped)[0]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 2)
    pull = asyncio.ensure_future(talk.pull("orders", 0, 2, sys_flag=6, **fields))
    await settled(lambda: len(talk.broker.longpoll))
    await talk.send_ok("orders", b"wanted", properties="n\x015\x02")
    assert [u.body for u in decode_units((await pull).body)] == [b"wanted"]


async def test_a_waiting_pull_is_answered_when_its_time_is_up(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock))
    await talk.send_ok("orders")
    pull = asyncio.ensure_future(talk.pull("orders", 0, 1, sys_flag=6, suspend_timeout_millis=15_000))
    await settled(lambda: len(talk.broker.longpoll))
    clock.advance(14.0)
    await settled(lambda: clock.sleepers > 3)
    assert not pull.done()
    clock.advance(2.0)
    answer = await pull
    assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")
    assert offsets(answer) == (1, 0, 1)


async def test_without_long_polling_a_pull_waits_the_short_time(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock), longPollingEnable=False, shortPollingTimeMills=1000)
    await talk.send_ok("orders")
    pull = asyncio.ensure_future(talk.pull("orders", 0, 1, sys_flag=6, suspend_timeout_millis=15_000))
    await settled(lambda: len(talk.broker.longpoll))
    clock.advance(1.5)
    assert (await pull).code == ResponseCode.PULL_NOT_FOUND


async def test_a_topic_deleted_under_a_waiting_pull_ends_it(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock))
    await talk.send_ok("orders")
    pull = asyncio.ensure_future(talk.pull("orders", 0, 1, sys_flag=6, suspend_timeout_millis=5000))
    await settled(lambda: len(talk.broker.longpoll))
    talk.broker.topics.delete("orders")
    clock.advance(6)
    assert (await pull).code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_pulls_of_a_lost_connection_are_forgotten(talk: Talk) -> None:
    await talk.send_ok("orders")
    async with Talk.beside(talk.broker) as other:
        pull = asyncio.ensure_future(other.pull("orders", 0, 1, sys_flag=6, suspend_timeout_millis=15_000))
        await settled(lambda: len(talk.broker.longpoll))
        pull.cancel()
    await settled(lambda: not len(talk.broker.longpoll))


# What a pull carries besides.


async def test_a_pull_carries_a_commit(talk: Talk) -> None:
    await filled(talk)
    await talk.pull("orders", 0, 3, sys_flag=SUBSCRIPTION | COMMIT, commit_offset=3)
    assert talk.broker.offsets.get("consumers", "orders", 0) == 3
    await talk.pull("orders", 0, 3, sys_flag=SUBSCRIPTION, commit_offset=4)
    assert talk.broker.offsets.get("consumers", "orders", 0) == 3


async def test_a_slave_is_suggested_only_where_slaves_may_be_read(talk: Talk) -> None:
    await filled(talk)
    talk.broker.change_options(talk.broker.options.updated("slaveReadEnable", "true"))
    config = talk.broker.groups.find("consumers", auto_create=True)
    assert config is not None
    config.broker_id = 2
    assert (await talk.pull("orders")).fields["suggestWhichBrokerId"] == "2"


async def test_a_group_reset_without_its_help_is_sent_there_by_its_next_pull(talk: Talk) -> None:
    await filled(talk)
    offsets_table = talk.broker.offsets
    offsets_table.commit("consumers", "orders", 0, 5)
    offsets_table.reset_at_next_pull("consumers", "orders", 0, 2)
    offsets_table.commit("consumers", "orders", 0, 5, explicit=True)
    assert offsets_table.get("consumers", "orders", 0) == 2
    moved = await talk.pull("orders", 0, 5)
    assert (moved.code, offsets(moved)[0]) == (ResponseCode.PULL_OFFSET_MOVED, 2)
    assert [u.body for u in await talk.units("orders", 0, 2)] == [b"2", b"3", b"4"]


async def test_a_large_pull_is_bounded_by_bytes(talk_to: Starter) -> None:
    talk = await talk_to(maxTransferBytesOnMessageInMemory=3000)
    for _ in range(10):
        await talk.send_ok("orders", b"x" * 1000)
    answer = await talk.ask(RequestCode.PULL_MESSAGE, pull_fields("orders"))
    assert 1 <= len(decode_units(answer.body)) <= 3
