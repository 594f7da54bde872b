"""State that any client can cause by naming things is bounded, and goes when it is not used."""

import asyncio
from pathlib import Path

from ariane.broker.tables.clients import MOST_GROUPS
from ariane.env import Env, ManualClock
from ariane.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    ProducerData,
    QueueKey,
    SubscriptionData,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from tests.broker.conftest import Starter
from tests.broker.talk import Talk, settled, small_broker

HOUR_MS = 3_600_000


def commit_fields(topic: str, queue_id: int = 0, group: str = "g") -> dict[str, str]:
    return {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": "1"}


async def lock(talk: Talk, topic: str, group: str = "g", client: str = "c1") -> list[QueueKey]:
    body = LockBatchRequestBody(group, client, [QueueKey(topic, "broker-a", 0)]).encode()
    answer = await talk.ask(RequestCode.LOCK_BATCH_MQ, None, body)
    assert answer.code == 0
    return LockBatchResponseBody.decode(answer.body).lock_ok_mq_set


# Offsets.


async def test_no_offset_is_kept_for_a_topic_or_queue_that_does_not_exist(talk: Talk) -> None:
    await talk.send_ok("orders")
    for fields in (commit_fields("nowhere"), commit_fields("orders", 4), commit_fields("orders", 1 << 30)):
        assert (await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == ResponseCode.TOPIC_NOT_EXIST
        connection = await talk.client.connection(talk.address)
        connection.oneway(Command(RequestCode.UPDATE_CONSUMER_OFFSET, fields))
    assert (await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields("orders", 3))).code == 0
    assert talk.broker.offsets.table().offset_table == {"orders@g": {3: 1}}


async def test_a_retry_topic_takes_commits(talk: Talk) -> None:
    await talk.heartbeat("g", {"orders": "*"})
    assert (await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields("%RETRY%g"))).code == 0
    assert talk.broker.offsets.get("g", "%RETRY%g", 0) == 1


async def test_offsets_are_limited(talk_to: Starter) -> None:
    talk = await talk_to(consumerOffsetMax=2)
    await talk.send_ok("orders")
    codes = [
        (await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields("orders", group=f"g{n}"))).code
        for n in (1, 2, 3, 1)
    ]
    assert codes == [0, 0, ResponseCode.SYSTEM_ERROR, 0]
    await talk.pull("orders", sys_flag=5, commit_offset=1, consumer_group="g4")  # a pull that commits is served
    assert talk.broker.offsets.groups() == {"g1", "g2"}


# Groups.


async def test_groups_created_by_use_are_limited(talk_to: Starter) -> None:
    talk = await talk_to(autoCreateGroupMax=9)
    await talk.send_ok("orders")
    for n in range(5):
        assert (await talk.heartbeat(f"g{n}", {"orders": "*"})).code == 0
    assert len(talk.broker.groups) == 9
    refused = await talk.pull("orders", consumer_group="g4")
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "autoCreateGroupMax=9" in (refused.remark or "")
    assert "%RETRY%g4" not in talk.broker.topics
    assert (await talk.pull("orders", consumer_group="g0")).code == 0
    refused = await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields("orders", group="g4"))
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_groups_that_a_client_only_named_go_when_it_is_gone(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock))
    broker = talk.broker
    await talk.send_ok("orders")
    async with Talk.beside(broker) as other:
        for group in ("named", "committed", "configured"):
            await other.heartbeat(group, {"orders": "*"})
        await other.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields("orders", group="committed"))
        broker.groups.update(broker.groups.find("configured", auto_create=False))  # type: ignore[arg-type]
        await talk.heartbeat("online", {"orders": "*"})
    await settled(lambda: broker.clients.consumer_group("named") is None)
    for _ in range(12):
        await talk.heartbeat("online", {"orders": "*"})
        await talk.pass_time(clock, 60)
    await settled(lambda: "named" not in broker.groups)
    assert "%RETRY%named" not in broker.topics
    assert all(group in broker.groups for group in ("committed", "configured", "online"))


async def test_one_connection_is_in_a_limited_number_of_groups(talk: Talk) -> None:
    names = [f"p{n}" for n in range(MOST_GROUPS)]
    body = HeartbeatData("c", [ProducerData(name) for name in names], []).encode()
    assert (await talk.ask(RequestCode.HEART_BEAT, None, body)).code == 0
    assert (await talk.heartbeat(producer="one-more")).code == ResponseCode.SYSTEM_ERROR
    assert (await talk.heartbeat(producer="p1")).code == 0
    long = [SubscriptionData.build(f"topic-{n}", "*", 1, "TAG") for n in range(10_000)]
    body = HeartbeatData("c", [], [ConsumerData("g", subscription_data_set=long)]).encode()
    assert (await talk.ask(RequestCode.HEART_BEAT, None, body)).code == ResponseCode.SYSTEM_ERROR


async def test_clients_of_a_closed_connection_are_gone_at_once(talk: Talk) -> None:
    async with Talk.beside(talk.broker) as other:
        for n in range(3):
            await other.heartbeat(f"g{n}", {"orders": "*"}, producer=f"p{n}")
        await talk.heartbeat("g0", {"orders": "*"}, producer="p0", client_id="stays")
    await settled(lambda: len(talk.broker.clients.consumer_groups()) == 1)
    clients = talk.broker.clients
    assert [group.client_ids() for group in clients.consumer_groups()] == [["stays"]]
    assert {g: [c.client_id for c in members] for g, members in clients.producer_groups().items()} == {"p0": ["stays"]}


# Topics.


async def test_topics_created_by_sends_are_limited(talk_to: Starter) -> None:
    talk = await talk_to(autoCreateTopicMax=0)
    refused = await talk.send("orders")
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
    assert "autoCreateTopicMax=0" in (refused.remark or "")
    fields = {"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    assert (await talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**fields, "topicFilterType": "SINGLE_TAG"})).code == 0
    await talk.send_ok("orders")
    await talk.heartbeat("g", {"orders": "*"})
    assert "%RETRY%g" in talk.broker.topics


async def test_a_retry_topic_needs_a_group(talk_to: Starter) -> None:
    talk = await talk_to(autoCreateTopicEnable=False, autoCreateSubscriptionGroup=False)
    assert (await talk.send("%RETRY%made-up")).code != 0
    assert "%RETRY%made-up" not in talk.broker.topics


# Locks.


async def test_no_lock_is_kept_for_a_queue_that_does_not_exist(talk: Talk) -> None:
    await talk.send_ok("orders")
    assert await lock(talk, "nowhere") == []
    assert len(await lock(talk, "orders")) == 1
    assert len(talk.broker.locks) == 1


async def test_locks_that_are_not_renewed_are_freed(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock))
    await talk.send_ok("orders")
    for n in range(20):
        await lock(talk, "orders", group=f"g{n}")
    assert len(talk.broker.locks) == 20
    await talk.pass_time(clock, 130)
    await settled(lambda: len(talk.broker.locks) == 0)


# A clock that is set.


class SetClock(ManualClock):
    """A clock whose wall time can be set without time passing."""

    set_by_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_by_ms


async def test_setting_the_clock_expires_no_client_lock_or_pull(tmp_path: Path) -> None:
    clock = SetClock()
    async with Talk.to(small_broker(tmp_path, env=Env(clock=clock))) as talk:
        await talk.send_ok("orders")
        await talk.heartbeat("g", {"orders": "*"}, producer="p")
        await lock(talk, "orders")
        pull = asyncio.ensure_future(talk.pull("orders", 0, 1, sys_flag=6, suspend_timeout_millis=60_000))
        await settled(lambda: len(talk.broker.longpoll))
        for set_by in (HOUR_MS, -HOUR_MS):
            clock.set_by_ms = set_by
            await talk.pass_time(clock, 25)
            assert await lock(talk, "orders", client="c2") == []
            assert talk.broker.clients.consumer_group("g") is not None
            assert talk.broker.clients.producers("p")
            assert not pull.done()
        pull.cancel()
        clock.advance(120)
        await settled(lambda: talk.broker.clients.consumer_group("g") is None)  # by the time that did pass
