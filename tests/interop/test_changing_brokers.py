"""Topics and brokers that change under Apache's running clients."""

import threading

import pytest

from tests.cluster import Cluster
from tests.interop.quick import FIRST
from tests.peers import Driver, PeerError, Queue, unique, until
from tests.peers.clients import Producer


@pytest.fixture
def two_brokers(new_cluster: Cluster) -> Cluster:
    new_cluster.start_broker("one")
    new_cluster.start_broker("two")
    return new_cluster


def test_a_topic_shrinks_from_16_queues_to_8_without_loss(cluster: Cluster, java: Driver) -> None:
    topic, group = unique("shrink"), unique("group")

    def shape(read: int, write: int) -> None:
        args = ("-n", cluster.namesrv, "-b", cluster.broker_address, "-t", topic, "-r", str(read), "-w", str(write))
        assert "success" in java.mqadmin("updateTopic", *args)

    shape(16, 16)
    with java.producer(cluster.namesrv) as producer:
        for n in range(16):
            producer.send(topic, f"before-{n}", queue=Queue(topic, cluster.broker.options.broker_name, n))
        shape(16, 8)
        until(lambda: len(_refreshed(producer, topic)) == 8, 60, "the producer to know of 8 queues")
        with java.push_consumer(cluster.namesrv, topic, group=group, consumeFromWhere=FIRST) as consumer:
            producer.burst(topic, 64, prefix="during")
            consumer.await_messages(80)
            shape(8, 8)
            producer.burst(topic, 20, prefix="after")
            until(lambda: len({m.body for m in consumer.messages()}) == 100, 60, "every message")
            messages = consumer.messages()
    assert {m.queue.queue_id for m in messages if m.body.startswith(b"before")} == set(range(16))
    assert max(m.queue.queue_id for m in messages if m.body.startswith((b"during", b"after"))) < 8


def _refreshed(producer: Producer, topic: str) -> list[Queue]:
    producer.refresh()
    return producer.queues(topic)


def test_a_topic_grows_and_new_queues_are_used(cluster: Cluster, java: Driver) -> None:
    topic = unique("grow")
    with java.producer(cluster.namesrv) as producer:
        producer.send(topic, b"first")
        with java.push_consumer(cluster.namesrv, topic, consumeFromWhere=FIRST) as consumer:
            consumer.await_messages(1)
            args = ("-n", cluster.namesrv, "-b", cluster.broker_address, "-t", topic, "-r", "12", "-w", "12")
            java.mqadmin("updateTopic", *args)
            until(lambda: len(_refreshed(producer, topic)) == 12, 60, "the producer to know of 12 queues")
            producer.burst(topic, 60, threads=1)
            until(lambda: len({m.queue.queue_id for m in consumer.messages()}) == 12, 60, "messages of all queues")


def test_a_drained_broker_gets_no_new_messages_and_is_emptied(two_brokers: Cluster, java: Driver) -> None:
    topic = unique("drain")
    namesrv = two_brokers.namesrv
    java.mqadmin("updateTopic", "-n", namesrv, "-c", "DefaultCluster", "-t", topic)
    with java.producer(namesrv) as producer:
        before = producer.burst(topic, 64)
        assert {r.queue.broker for r in before.sent} == {"one", "two"}
        address = two_brokers.brokers["one"].address
        args = ("-n", namesrv, "-b", address, "-k", "brokerPermission", "-v", "4")
        assert "success" in java.mqadmin("updateBrokerConfig", *args)
        after = producer.burst(topic, 64)  # with the old route at first: each is refused there and sent again
        assert not after.failed
        assert {r.queue.broker for r in after.sent} == {"two"}
        with java.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer:
            until(lambda: len({m.msg_id for m in consumer.messages()}) == 128, 60, "all messages of both brokers")


def test_sending_goes_on_while_a_broker_restarts(two_brokers: Cluster, java: Driver) -> None:
    topic = unique("restart")
    namesrv, port = two_brokers.namesrv, two_brokers.brokers["one"].port
    java.mqadmin("updateTopic", "-n", namesrv, "-c", "DefaultCluster", "-t", topic)
    with (
        java.producer(namesrv, retryTimesWhenSendFailed=5) as producer,
        java.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer,
    ):
        restart = threading.Thread(target=_restart, args=(two_brokers, port))
        restart.start()
        burst = producer.burst(topic, 2000, threads=2)
        restart.join()
        assert not burst.failed
        sent = {r.msg_id for r in burst.sent}
        until(lambda: sent <= {m.msg_id for m in consumer.messages()}, 60, "every acknowledged message to arrive")


def _restart(cluster: Cluster, port: int) -> None:
    cluster.stop_broker("one")
    cluster.start_broker("one", listenPort=port)


def test_a_topic_that_may_only_be_read_is_read_and_not_written(cluster: Cluster, java: Driver) -> None:
    topic = unique("permission")
    with java.producer(cluster.namesrv) as producer:
        producer.burst(topic, 8)
        java.mqadmin("updateTopicPerm", "-n", cluster.namesrv, "-b", cluster.broker_address, "-t", topic, "-p", "4")
        with java.push_consumer(cluster.namesrv, topic, consumeFromWhere=FIRST) as consumer:
            consumer.await_messages(8)
        producer.refresh()
        with pytest.raises(PeerError, match=r"No route info|Can not find Message Queue"):
            producer.send(topic, b"nowhere to go")
