"""The rules of consuming with Apache's client: sharing, broadcasting, order, expressions, offsets."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.interop.quick import FIRST
from tests.peers import Driver, Message, PeerError, Queue, unique, until
from tests.peers.clients import PushConsumer

MANY = 300


def test_members_share_the_queues_and_hand_them_over(cluster: Cluster, java: Driver) -> None:
    topic, group = unique("shared"), unique("group")
    with java.producer(cluster.namesrv) as producer:
        producer.send(topic, b"first")
        with java.push_consumer(cluster.namesrv, topic, group=group, consumeFromWhere=FIRST) as first:
            first.await_messages(1)
            until(lambda: len(own(first, topic)) == 4, 60, "the first member to have all queues")
            with java.push_consumer(cluster.namesrv, topic, group=group, consumeFromWhere=FIRST) as second:
                until(lambda: len(own(second, topic)) == 2 == len(own(first, topic)), 60, "both to have half")
                producer.burst(topic, MANY)
                until(lambda: len(bodies(first) | bodies(second)) == MANY + 1, 60, "all messages")
                assert not (set(own(first, topic)) & set(own(second, topic)))
                assert bodies(second)
            until(lambda: len(own(first, topic)) == 4, 60, "the first member to have all queues again")
            producer.burst(topic, 40, prefix="late")
            until(lambda: sum(1 for b in bodies(first) if b.startswith(b"late")) == 40, 60, "all to come to the first")


def own(consumer: PushConsumer, topic: str) -> list[Queue]:
    return [queue for queue in consumer.queues() if queue.topic == topic]


def bodies(consumer: PushConsumer) -> set[bytes]:
    return {message.body for message in consumer.messages()}


def test_a_member_that_is_killed_loses_its_queues_at_once(
    cluster: Cluster, java: Driver, java_with: Callable[..., Driver]
) -> None:
    topic, group = unique("killed"), unique("group")
    doomed = java_with()
    with java.producer(cluster.namesrv) as producer:
        producer.send(topic, b"first")
        with java.push_consumer(cluster.namesrv, topic, group=group, consumeFromWhere=FIRST) as survivor:
            doomed.push_consumer(cluster.namesrv, topic, group=group, consumeFromWhere=FIRST)
            until(lambda: len(own(survivor, topic)) == 2, 60, "both to have half")
            doomed.kill()
            until(lambda: len(own(survivor, topic)) == 4, 60, "the survivor to have all queues")


def test_every_member_of_a_broadcasting_group_gets_everything(cluster: Cluster, java: Driver) -> None:
    topic, group = unique("broadcast"), unique("group")
    settings: dict[str, Any] = {"group": group, "consumeFromWhere": FIRST, "messageModel": "BROADCASTING"}
    with java.producer(cluster.namesrv) as producer:
        producer.burst(topic, 50)
        with (
            java.push_consumer(cluster.namesrv, topic, instanceName="a", **settings) as first,
            java.push_consumer(cluster.namesrv, topic, instanceName="b", **settings) as second,
        ):
            assert len({m.msg_id for m in first.await_messages(50)}) == 50
            assert len({m.msg_id for m in second.await_messages(50)}) == 50


def test_order_is_kept_in_each_queue_while_members_come_and_go(
    new_cluster: Cluster, java: Driver, java_with: Callable[..., Driver]
) -> None:
    topic, group = unique("ordered"), unique("group")
    settings: dict[str, Any] = {"group": group, "consumeFromWhere": FIRST, "orderly": True}
    new_cluster.start_broker(**{"rocketmq.broker.rebalance.lockMaxLiveTime": 22_000})  # clients renew each 20 s
    doomed = java_with()
    with java.producer(new_cluster.namesrv) as producer:
        producer.burst(topic, 100, threads=1, hash_keys=4)
        with java.push_consumer(new_cluster.namesrv, topic, **settings) as survivor:
            crashing = doomed.push_consumer(new_cluster.namesrv, topic, **settings)
            until(lambda: own(crashing, topic), 60, "the second member to have a queue")
            producer.burst(topic, 100, threads=1, hash_keys=4, prefix="more")
            until(lambda: len({*bodies(survivor), *bodies(crashing)}) == 200, 90, "all messages")
            crashed = {(message.queue, message.queue_offset) for message in crashing.messages()}
            doomed.kill()  # with queues locked, and offsets that it had not stored yet
            producer.burst(topic, 100, threads=1, hash_keys=4, prefix="last")
            until(lambda: sum(body.startswith(b"last-") for body in bodies(survivor)) == 100, 90, "the last messages")
            assert_in_order(survivor.messages(), crashed)


def assert_in_order(messages: list[Message], elsewhere: set[tuple[Queue, int]]) -> None:
    """Each queue's first deliveries come by rising offset without a gap but for what another member consumed.

    What a crash repeats may come again.
    """
    expected: dict[Queue, int] = {}
    for message in messages:
        queue = message.queue
        skipped = range(expected.get(queue, message.queue_offset), message.queue_offset)
        assert all((queue, offset) in elsewhere for offset in skipped)
        expected[queue] = max(expected.get(queue, 0), message.queue_offset + 1)


SQL = [
    ("price > 10 AND price BETWEEN 11 AND 20", ["15"]),
    ("colour IN ('red', 'blue') OR price IS NULL", ["5", "15", "none"]),
    ("NOT (colour = 'red')", ["15", "25"]),
    ("colour IS NOT NULL AND price >= 25", ["25"]),
]


@pytest.mark.parametrize(("expression", "expected"), SQL)
def test_sql92_selects_by_properties(cluster: Cluster, java: Driver, expression: str, expected: list[str]) -> None:
    topic = unique("sql")
    with java.producer(cluster.namesrv) as producer:
        for price, colour in (("5", "red"), ("15", "blue"), ("25", "green")):
            producer.send(topic, price, properties={"price": price, "colour": colour})
        producer.send(topic, "none")
    with java.push_consumer(cluster.namesrv, {topic: {"sql": expression}}, consumeFromWhere=FIRST) as consumer:
        found = consumer.await_messages(len(expected))
    assert sorted(m.body.decode() for m in found) == sorted(expected)


def test_an_expression_with_an_error_is_refused_when_the_consumer_starts(cluster: Cluster, java: Driver) -> None:
    topic = unique("sql")
    with java.producer(cluster.namesrv) as producer:
        producer.send(topic, b"x")
    with pytest.raises(PeerError, match="line 1, column"):
        java.push_consumer(cluster.namesrv, {topic: {"sql": "price > > 5"}}, consumeFromWhere=FIRST)


def test_a_new_group_that_begins_at_the_last_offset_sees_a_young_topic_from_its_start(
    cluster: Cluster, java: Driver
) -> None:
    topic = unique("young")
    with java.producer(cluster.namesrv) as producer:
        producer.burst(topic, 20)
    with java.push_consumer(cluster.namesrv, topic, consumeFromWhere="CONSUME_FROM_LAST_OFFSET") as consumer:
        consumer.await_messages(20)


def test_a_group_goes_on_where_it_stopped(cluster: Cluster, java: Driver) -> None:
    topic, group = unique("resume"), unique("group")
    with java.producer(cluster.namesrv) as producer:
        producer.burst(topic, 30, prefix="one")
        with java.push_consumer(cluster.namesrv, topic, group=group, consumeFromWhere=FIRST) as consumer:
            consumer.await_messages(30)
        producer.burst(topic, 30, prefix="two")
        with java.push_consumer(cluster.namesrv, topic, group=group, consumeFromWhere=FIRST) as consumer:
            assert all(m.body.startswith(b"two") for m in consumer.await_messages(30))


def test_a_lite_consumer_seeks_back_and_its_commits_follow(cluster: Cluster, java: Driver) -> None:
    topic, group = unique("lite"), unique("group")
    with java.producer(cluster.namesrv) as producer:
        queue = Queue(topic, cluster.broker.options.broker_name, 0)
        producer.send(topic, b"make the topic")
        for n in range(10):
            producer.send(topic, f"m{n}", queue=queue)
    with java.lite_consumer(cluster.namesrv, None, group=group, autoCommit=False) as lite:
        lite.assign([queue])
        end = cluster.call(lambda: cluster.broker.store.max_offset(topic, 0))
        lite.seek(queue, end - 2)
        assert lite.poll()
        lite.commit({queue: end})
        lite.seek(queue, end - 9)
        assert lite.poll()
        lite.commit({queue: end - 8})
        until(lambda: committed(cluster, group, queue) == end - 8, 60, "the commit behind the first one")


def committed(cluster: Cluster, group: str, queue: Queue) -> int:
    return cluster.call(lambda: cluster.broker.offsets.get(group, queue.topic, queue.queue_id))


def test_a_pull_consumer_gets_every_pull_status(cluster: Cluster, java: Driver) -> None:
    topic = unique("pull")
    queue = Queue(topic, cluster.broker.options.broker_name, 1)
    with java.producer(cluster.namesrv) as producer:
        producer.send(topic, b"make the topic")
        for n in range(3):
            producer.send(topic, f"m{n}", queue=queue, tags="A")
    with java.pull_consumer(cluster.namesrv) as consumer:
        end = consumer.max_offset(queue)
        found = consumer.pull(queue, end - 3)
        assert (found.status, found.next_offset, found.max_offset) == ("FOUND", end, end)
        assert consumer.pull(queue, end).status == "NO_NEW_MSG"
        assert consumer.pull(queue, end - 3, selector="B").status == "NO_MATCHED_MSG"
        beyond = consumer.pull(queue, end + 100)
        assert (beyond.status, beyond.next_offset) == ("OFFSET_ILLEGAL", end)
        assert consumer.min_offset(queue) == 0


def test_a_group_that_may_not_consume_gets_nothing_until_it_may(cluster: Cluster, java: Driver) -> None:
    topic, group = unique("enabled"), unique("group")
    args = ("updateSubGroup", "-n", cluster.namesrv, "-b", cluster.broker_address, "-g", group)
    with java.producer(cluster.namesrv) as producer:
        producer.burst(topic, 10)
    assert "success" in java.mqadmin(*args, "-s", "false")
    with java.push_consumer(cluster.namesrv, topic, group=group, consumeFromWhere=FIRST) as consumer:
        until(lambda: own(consumer, topic), 60, "the queues to be assigned")
        assert consumer.messages() == []
        assert "success" in java.mqadmin(*args, "-s", "true")
        consumer.await_messages(10)
