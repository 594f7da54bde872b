"""Apache's producer and push consumer through our name server and broker: what was sent arrives, exactly."""

from typing import Any

import pytest

from tests.cluster import Cluster
from tests.peers import Driver, Message, outgoing, unique

FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"
FIXTURES = ("java", "java_binary", "java_tls")


@pytest.fixture(params=FIXTURES)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Apache's client with JSON headers, with binary headers, and over TLS."""
    driver: Driver = request.getfixturevalue(request.param)
    return driver


def received(driver: Driver, namesrv: str, topic: str, count: int) -> list[Message]:
    with driver.push_consumer(namesrv, {topic: "*"}, consumeFromWhere=FROM_FIRST) as consumer:
        return consumer.await_messages(count)


def test_every_way_to_send_arrives_as_it_was_sent(cluster: Cluster, driver: Driver) -> None:
    topic = unique("kinds")
    fields: dict[str, Any] = {"tags": "TagA", "keys": ["k1", "k2"], "properties": {"colour": "grün", "n": "5"}}
    with driver.producer(cluster.namesrv) as producer:
        sent = producer.send(topic, b"sync", **fields)
        assert sent.status == "SEND_OK"
        assert sent.region_id == "DefaultRegion"
        assert producer.send_async(topic, b"async", **fields).status == "SEND_OK"
        producer.send_oneway(topic, b"oneway", **fields)
        batch = producer.send_batch([outgoing(topic, f"batch-{i}", **fields) for i in range(3)])
        assert batch.status == "SEND_OK"
        assert len(batch.msg_id.split(",")) == 3
    messages = received(driver, cluster.namesrv, topic, 6)
    assert sorted(m.body for m in messages) == [b"async", b"batch-0", b"batch-1", b"batch-2", b"oneway", b"sync"]
    for message in messages:
        assert message.tags == "TagA"
        assert message.keys == "k1 k2"
        assert message.properties["colour"] == "grün"
        assert message.properties["n"] == "5"
        assert message.properties["CLUSTER"] == "DefaultCluster"
    [first] = [m for m in messages if m.body == b"sync"]
    assert first.msg_id == sent.msg_id
    assert first.offset_msg_id == sent.offset_msg_id
    assert (first.queue, first.queue_offset) == (sent.queue, sent.queue_offset)


def test_a_body_that_the_client_compresses_arrives_whole(cluster: Cluster, driver: Driver) -> None:
    topic, body = unique("large"), b"0123456789" * 2000
    with driver.producer(cluster.namesrv) as producer:
        producer.send(topic, body)
    [message] = received(driver, cluster.namesrv, topic, 1)
    assert message.body == body
    assert message.raw["storeSize"] < len(body)


@pytest.mark.parametrize("mode", ["sync", "async", "oneway"])
def test_a_burst_arrives_without_loss_or_doubles(cluster: Cluster, java: Driver, mode: str) -> None:
    topic, count = unique("burst"), 1000
    with java.producer(cluster.namesrv) as producer:
        burst = producer.burst(topic, count, mode=mode)
    assert not burst.failed
    messages = received(java, cluster.namesrv, topic, count)
    assert len({m.msg_id for m in messages}) == count


def test_messages_arrive_while_the_consumer_waits(cluster: Cluster, java: Driver) -> None:
    topic = unique("waiting")
    with java.producer(cluster.namesrv) as producer:
        producer.send(topic, b"first")
        with java.push_consumer(cluster.namesrv, {topic: "*"}, consumeFromWhere=FROM_FIRST) as consumer:
            consumer.await_messages(1)
            for i in range(5):
                producer.send(topic, f"next-{i}")
            assert len(consumer.await_messages(6)) == 6


def test_tags_are_filtered_at_the_broker(cluster: Cluster, java: Driver) -> None:
    topic = unique("tags")
    with java.producer(cluster.namesrv) as producer:
        for tag in ("A", "B", "C", "A"):
            producer.send(topic, tag.encode(), tags=tag)
    with java.push_consumer(cluster.namesrv, {topic: "A || C"}, consumeFromWhere=FROM_FIRST) as consumer:
        assert sorted(m.tags or "" for m in consumer.await_messages(3)) == ["A", "A", "C"]


def test_everything_is_kept_over_a_restart(new_cluster: Cluster, java: Driver) -> None:
    topic, group = unique("restart"), unique("group")
    broker = new_cluster.start_broker()
    port = broker.port
    with java.producer(new_cluster.namesrv) as producer:
        producer.burst(topic, 100, prefix="before")
    with java.push_consumer(new_cluster.namesrv, {topic: "*"}, group=group, consumeFromWhere=FROM_FIRST) as consumer:
        consumer.await_messages(100)
        consumer.persist_offsets()
    new_cluster.stop_broker()
    new_cluster.start_broker(listenPort=port)
    with java.producer(new_cluster.namesrv) as producer:
        producer.burst(topic, 20, prefix="after")
    with java.push_consumer(new_cluster.namesrv, {topic: "*"}, group=group, consumeFromWhere=FROM_FIRST) as consumer:
        assert all(m.body.startswith(b"after") for m in consumer.await_messages(20))
    with java.push_consumer(new_cluster.namesrv, {topic: "*"}, consumeFromWhere=FROM_FIRST) as consumer:
        assert len({m.msg_id for m in consumer.await_messages(120)}) == 120


def test_a_broker_stops_while_clients_hold_pulls_open(new_cluster: Cluster, java: Driver) -> None:
    topic = unique("stop")
    new_cluster.start_broker()
    with java.producer(new_cluster.namesrv) as producer:
        producer.send(topic, b"one")
        with java.push_consumer(new_cluster.namesrv, {topic: "*"}, consumeFromWhere=FROM_FIRST) as consumer:
            consumer.await_messages(1)
            new_cluster.stop_broker()
    assert not new_cluster.brokers
