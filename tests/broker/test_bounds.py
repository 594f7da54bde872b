"""State that any client can cause by naming things is bounded, and goes when it is not used."""

import asyncio
from pathlib import Path

from ariane.broker.tables.clients import ClientLimits
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
from ariane.remoting import ACCOUNT
from tests.broker.conftest import Starter
from tests.broker.talk import Talk, settled, small_broker

HOUR_MS = 3_600_000


def commit_fields(topic: str, queue_id: int = 0, group: str = "g") -> dict[str, str]:
    return {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": "1"}


def refused_by(talk: Talk) -> dict[str, int]:
    """The limits that refused something, and how often."""
    return {reason: count for reason, count in talk.broker.refusals.counts().items() if count}


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
    assert refused_by(talk) == {"offsets": 2}


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
    names = [f"p{n}" for n in range(ClientLimits.groups)]
    body = HeartbeatData("c", [ProducerData(name) for name in names], []).encode()
    assert (await talk.ask(RequestCode.HEART_BEAT, None, body)).code == 0
    assert (await talk.heartbeat(producer="one-more")).code == ResponseCode.SYSTEM_ERROR
    assert (await talk.heartbeat(producer="p1")).code == 0
    long = [SubscriptionData.build(f"topic-{n}", "*", 1, "TAG") for n in range(10_000)]
    body = HeartbeatData("c", [], [ConsumerData("g", subscription_data_set=long)]).encode()
    assert (await talk.ask(RequestCode.HEART_BEAT, None, body)).code == ResponseCode.SYSTEM_ERROR
    assert refused_by(talk) == {"groups_per_connection": 1, "heartbeat": 1}


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
    assert 'ariane_requests_refused_total{reason="topics"} 1\n' in talk.broker.monitor.registry.text()
    fields = {"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    assert (await talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**fields, "topicFilterType": "SINGLE_TAG"})).code == 0
    await talk.send_ok("orders")
    await talk.heartbeat("g", {"orders": "*"})
    assert "%RETRY%g" in talk.broker.topics


async def test_topics_that_a_refused_send_created_do_not_stay(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock), maxMessageSize=1000)
    await talk.send_ok("orders")
    refused = await talk.send("only-named", bytes(5000))
    assert refused.code != 0
    assert "only-named" in talk.broker.topics
    for _ in range(12):
        await talk.pass_time(clock, 60)
    await settled(lambda: "only-named" not in talk.broker.topics)
    assert "orders" in talk.broker.topics
    await talk.send_ok("only-named")  # it may come again


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


# Shares of one account, which is the address of a peer that has none.


async def test_one_account_cannot_use_up_all_topics(talk_to: Starter) -> None:
    talk = await talk_to(autoCreateTopicPerAccountMax=2)
    for topic in ("a", "b", "a"):
        await talk.send_ok(topic)
    refused = await talk.send("c")
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
    assert "address 127.0.0.1 created as many as one may (autoCreateTopicPerAccountMax=2)" in (refused.remark or "")
    log_in(talk, "somebody-else")
    await talk.send_ok("c")
    talk.broker.topics.delete("a")  # deleted, or taken over by an administrator: charged to nobody
    log_in(talk, "")
    await talk.send_ok("d")
    assert refused_by(talk) == {"topics_per_account": 1}


async def test_one_account_cannot_use_up_all_groups_and_offsets(talk_to: Starter) -> None:
    talk = await talk_to(autoCreateGroupPerAccountMax=3, consumerOffsetPerAccountMax=2)
    await talk.send_ok("orders")
    codes = [
        (await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields("orders", group=f"g{n}"))).code
        for n in range(4)
    ]
    assert codes == [0, 0, ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST]
    assert (await talk.heartbeat("g4", {"orders": "*"})).code == 0
    assert refused_by(talk) == {"groups_per_account": 2, "offsets_per_account": 1}
    log_in(talk, "somebody-else")
    assert (await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields("orders", group="g4"))).code == 0


async def test_clients_are_limited_by_account_and_in_all(talk_to: Starter) -> None:
    talk = await talk_to(clientPerAccountMax=2, clientMax=3)
    for group in ("g1", "g2", "g1"):
        assert (await talk.heartbeat(group, {"orders": "*"}, producer=group)).code == 0
    assert (await talk.heartbeat("g3", {"orders": "*"})).code == ResponseCode.SYSTEM_ERROR
    async with Talk.beside(talk.broker) as other:
        assert (await other.heartbeat("g3", {"orders": "*"})).code == ResponseCode.SYSTEM_ERROR
        log_in(talk, "somebody-else")
        assert (await other.heartbeat("g3", {"orders": "*"})).code == 0
        assert (await other.heartbeat("g4", {"orders": "*"})).code == ResponseCode.SYSTEM_ERROR
    assert refused_by(talk) == {"clients": 1, "clients_per_account": 2}
    await settled(lambda: talk.broker.clients.consumer_group("g3") is None)
    for group in ("g1", "g2"):
        assert (
            await talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "client-1", "consumerGroup": group})
        ).code == 0
        await talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "client-1", "producerGroup": group})
    for group in ("g5", "g6"):  # room again
        assert (await talk.heartbeat(group, {"orders": "*"})).code == 0


def log_in(talk: Talk, account: str) -> None:
    """What access control does on every connection of the broker."""
    for connection in talk.broker._server.connections:
        connection.attributes[ACCOUNT] = account


# Long polls.


async def test_pulls_that_wait_are_limited_by_connection_and_in_all(talk_to: Starter) -> None:
    talk = await talk_to(longPollPerConnectionMax=2, longPollMax=3)
    await talk.send_ok("orders")

    def wait(who: Talk) -> asyncio.Task[Command]:
        return asyncio.ensure_future(who.pull("orders", 0, 1, sys_flag=6, suspend_timeout_millis=60_000))

    waiting = [wait(talk), wait(talk)]
    await settled(lambda: len(talk.broker.longpoll) == 2)
    busy = await wait(talk)
    assert busy.code == ResponseCode.SYSTEM_BUSY
    assert "longPollPerConnectionMax" in (busy.remark or "")
    async with Talk.beside(talk.broker) as other:
        waiting.append(wait(other))
        await settled(lambda: len(talk.broker.longpoll) == 3)
        assert "longPollMax" in ((await wait(other)).remark or "")
        assert refused_by(talk) == {"long_polls": 1, "long_polls_per_connection": 1}
        await talk.send_ok("orders")
        assert [(await pull).code for pull in waiting] == [0, 0, 0]
    assert len(talk.broker.longpoll) == 0


async def test_bytes_of_pulls_that_wait_are_limited(talk_to: Starter) -> None:
    talk = await talk_to(longPollBytesMax=50_000)
    await talk.send_ok("orders")
    long = " || ".join(f"tag-{n}" for n in range(1500))
    header = {"sys_flag": 6, "suspend_timeout_millis": 60_000, "subscription": long}
    first = asyncio.ensure_future(talk.pull("orders", 0, 1, **header))
    await settled(lambda: len(talk.broker.longpoll) == 1)
    second = asyncio.ensure_future(talk.pull("orders", 0, 1, **header))
    await settled(lambda: len(talk.broker.longpoll) == 2)
    busy = await talk.pull("orders", 0, 1, **header)
    assert busy.code == ResponseCode.SYSTEM_BUSY
    assert "longPollBytesMax" in (busy.remark or "")
    assert refused_by(talk) == {"long_poll_bytes": 1}
    first.cancel()
    second.cancel()


# Expressions.


async def test_expressions_are_limited(talk_to: Starter) -> None:
    limits = {"filterExpressionMaxLength": 200, "filterExpressionMaxTokens": 20, "filterExpressionMaxDepth": 4}
    talk = await talk_to(**limits)
    await talk.send_ok("orders")

    async def pull(expression: str) -> int:
        answer = await talk.pull("orders", sys_flag=4, subscription=expression, expression_type="SQL92")
        return answer.code

    failed = ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert await pull("a = '" + "x" * 300 + "'") == failed
    assert await pull(" AND ".join(["a = 1"] * 10)) == failed
    assert await pull("NOT (NOT (NOT (NOT (NOT (a = 1)))))") == failed
    assert await pull("a = 1 AND") == failed  # wrong, and within the limits
    assert refused_by(talk) == {"filter_length": 1, "filter_tokens": 1, "filter_depth": 1}


# Resets.


async def test_a_commit_overtaken_by_a_reset_is_answered_as_apache_does(talk: Talk) -> None:
    """Success, because the client can do nothing about it, with a remark; the offset stays that of the reset."""
    for _ in range(3):
        await talk.send_ok("orders")
    await talk.heartbeat("g", {"orders": "*"})
    commit = commit_fields("orders") | {"commitOffset": "3"}
    assert (await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
    reset = {"topic": "orders", "group": "g", "timestamp": "0", "isForce": "true", "queueId": "0", "offset": "1"}
    assert (await talk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == 0
    late = await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit | {"commitOffset": "2"})
    assert (late.code, late.remark) == (0, "Offset has been previously reset")
    assert talk.broker.offsets.get("g", "orders", 0) == 1
    moved = await talk.pull("orders", 0, 3, consumer_group="g")
    assert moved.code == ResponseCode.PULL_OFFSET_MOVED
    after = await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit | {"commitOffset": "2"})
    assert (after.code, after.remark) == (0, None)
    assert talk.broker.offsets.get("g", "orders", 0) == 2
    assert not talk.broker.offsets.has_pending
