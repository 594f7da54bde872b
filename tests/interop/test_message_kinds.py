"""Apache's client against our broker: delayed, retried, transactional and replied messages."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ariane.env import SystemClock
from ariane.protocol.codes import RESEND_DEAD_LETTERS
from ariane.protocol.command import Command
from ariane.remoting import Client
from tests.cluster import Cluster
from tests.interop.quick import FIRST
from tests.peers import Driver, answer, echo, unique
from tests.peers.clients import Producer


def test_a_delayed_message_arrives_late_but_whole(quick: Cluster, java: Driver) -> None:
    topic = unique("delay")
    with java.producer(quick.namesrv) as producer, java.push_consumer(quick.namesrv, topic) as consumer:
        producer.send(topic, b"at once")
        consumer.await_messages(1)
        sent = producer.send(topic, b"later", tags="T", keys=["k"], delay_level=3, properties={"a": "1"})
        late = consumer.await_messages(2)[1]
    assert late.raw["storeTimestamp"] - late.raw["bornTimestamp"] >= 1000
    assert (late.body, late.tags, late.keys, late.properties["a"]) == (b"later", "T", "k", "1")
    assert (late.msg_id, late.queue.queue_id) == (sent.msg_id, sent.queue.queue_id)


def test_a_failing_message_comes_back_and_ends_as_a_dead_letter(quick: Cluster, java: Driver) -> None:
    topic = unique("retry")
    settings: dict[str, Any] = {"script": {"fail": 99}, "maxReconsumeTimes": 2, "consumeFromWhere": FIRST}
    with java.producer(quick.namesrv) as producer, java.push_consumer(quick.namesrv, topic, **settings) as consumer:
        sent = producer.send(topic, b"poison", keys=["k"])
        tries = consumer.await_messages(3)
        dead = f"%DLQ%{consumer.group}"
        with java.push_consumer(quick.namesrv, dead, consumeFromWhere=FIRST) as undertaker:
            [letter] = undertaker.await_messages(1)
        assert [m.reconsume_times for m in tries] == [0, 1, 2]
        assert {m.msg_id for m in tries} == {sent.msg_id}
        assert (letter.body, letter.properties["RETRY_TOPIC"]) == (b"poison", topic)
        assert letter.properties["ORIGIN_MESSAGE_ID"] == sent.offset_msg_id
        consumer.follow({})
        group = consumer.group or ""
        asyncio.run(resend(quick.broker.address, group, letter.queue_offset))
        again = consumer.await_messages(4)[3]
    assert (again.body, again.reconsume_times, again.topic) == (b"poison", 0, topic)


async def resend(address: str, group: str, offset: int) -> None:
    """Have the broker send a dead letter again."""
    client = Client(clock=SystemClock())
    try:
        fields = {"consumerGroup": group, "offset": str(offset)}
        answered = await client.request(address, Command(RESEND_DEAD_LETTERS, fields), 60)
    finally:
        await client.close()
    assert answered.code == 0, answered.remark


def test_transactions_commit_and_roll_back(quick: Cluster, java: Driver) -> None:
    topic = unique("transaction")
    with java.transaction_producer(quick.namesrv) as producer:
        committed = producer.send_in_transaction(topic, b"committed", "COMMIT_MESSAGE", tags="T")
        producer.send_in_transaction(topic, b"rolled back", "ROLLBACK_MESSAGE")
        with java.push_consumer(quick.namesrv, topic, consumeFromWhere=FIRST) as consumer:
            [message] = consumer.await_messages(1)
            producer.send_in_transaction(topic, b"last", "COMMIT_MESSAGE")
            assert [m.body for m in consumer.await_messages(2)] == [b"committed", b"last"]
    assert (message.tags, message.msg_id) == ("T", committed.msg_id)


def test_an_undecided_transaction_is_checked_until_it_is_decided(quick: Cluster, java: Driver) -> None:
    topic = unique("checked")
    with java.transaction_producer(quick.namesrv) as producer:
        producer.send_in_transaction(topic, b"checked", "UNKNOW", answers=["UNKNOW", "COMMIT_MESSAGE"])
        producer.send_in_transaction(topic, b"given up", "UNKNOW", answers=["ROLLBACK_MESSAGE"])
        with java.push_consumer(quick.namesrv, topic, consumeFromWhere=FIRST) as consumer:
            assert consumer.await_messages(1)[0].body == b"checked"
            # More checks may come where an answer takes longer than the second between two rounds.
            asked = Counter[bytes]()
            while asked[b"checked"] < 2 or asked[b"given up"] < 1:
                asked = Counter(check.body for check in producer.await_checks(asked.total() + 1))
            assert {m.body for m in consumer.messages()} == {b"checked"}
    assert set(asked) == {b"checked", b"given up"}


def test_a_second_producer_answers_for_one_that_was_killed(
    quick: Cluster, java: Driver, java_with: Callable[..., Driver]
) -> None:
    topic, group = unique("orphan"), unique("group")
    first = java_with()
    producer = first.transaction_producer(quick.namesrv, group)
    producer.send_in_transaction(topic, b"orphan", "UNKNOW", answers=["UNKNOW"] * 50)
    first.kill()
    with (
        java.transaction_producer(quick.namesrv, group, answers=["COMMIT_MESSAGE"]) as second,
        java.push_consumer(quick.namesrv, topic, consumeFromWhere=FIRST) as consumer,
    ):
        assert {m.body for m in consumer.await_messages(1)} == {b"orphan"}
        assert second.await_checks(1)[0].body == b"orphan"


@pytest.mark.parametrize("make_script", [echo, lambda producer: answer(producer, b"pong")])
def test_a_request_gets_its_reply(
    quick: Cluster, java: Driver, make_script: Callable[[Producer], dict[str, str]]
) -> None:
    topic = unique("request")
    with java.producer(quick.namesrv) as replier, java.producer(quick.namesrv) as asker:
        replier.send(topic, "create it")
        script = make_script(replier)
        with java.push_consumer(quick.namesrv, topic) as consumer:
            consumer.await_messages(1)
            consumer.follow(script)
            reply = asker.request(topic, b"ping")
    assert reply.body == (b"ping" if script["reply"] == "echo" else b"pong")
