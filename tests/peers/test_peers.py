"""The harness by itself: Apache's client and tools against Apache's own servers."""

from tests.peers import Driver, unique
from tests.peers.fixtures import ApacheCluster


def test_a_message_sent_is_a_message_received(java: Driver, apache_cluster: ApacheCluster) -> None:
    topic = unique("topic")
    with java.producer(apache_cluster.namesrv) as producer:
        sent = producer.send(topic, b"\x00\xff binary", tags="A", keys=["k1", "k2"], properties={"a": "1"})
        with java.push_consumer(
            apache_cluster.namesrv, topic, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET"
        ) as consumer:
            [got] = consumer.await_messages(1)
    assert sent.status == "SEND_OK"
    assert (got.body, got.tags, got.keys, got.properties["a"]) == (b"\x00\xff binary", "A", "k1 k2", "1")
    assert (got.msg_id, got.offset_msg_id, got.queue) == (sent.msg_id, sent.offset_msg_id, sent.queue)


def test_mqadmin_lists_the_cluster(java: Driver, apache_cluster: ApacheCluster) -> None:
    listing = java.mqadmin("clusterList", "-n", apache_cluster.namesrv)
    assert apache_cluster.broker.address in listing
