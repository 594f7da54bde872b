"""Our broker registered with Apache's name server."""

from collections.abc import Callable

from tests.cluster import Cluster
from tests.peers import ApacheNamesrv, Driver, unique, until


def test_apaches_client_works_through_our_broker_and_apaches_name_server(
    new_cluster: Cluster, java: Driver, apache_namesrv: Callable[..., ApacheNamesrv]
) -> None:
    server = apache_namesrv()
    new_cluster.use_name_server(server.address)
    new_cluster.start_broker()
    topic = unique("topic")
    with java.producer(server.address) as producer:
        burst = producer.burst(topic, 200)
    assert not burst.failed
    with java.push_consumer(server.address, topic, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET") as consumer:
        assert len({m.msg_id for m in consumer.await_messages(200)}) == 200
    assert "broker-a" in java.mqadmin("clusterList", "-n", server.address)
    new_cluster.stop_broker()
    until(lambda: "broker-a" not in java.mqadmin("clusterList", "-n", server.address), 60, "the broker to be gone")


def test_a_compressed_registration_is_understood(
    new_cluster: Cluster, java: Driver, apache_namesrv: Callable[..., ApacheNamesrv]
) -> None:
    server = apache_namesrv()
    new_cluster.use_name_server(server.address)
    new_cluster.start_broker(compressedRegister=True)
    assert "SELF_TEST_TOPIC" in java.mqadmin("topicList", "-n", server.address)


def test_a_broker_registers_with_every_name_server(
    new_cluster: Cluster, java: Driver, apache_namesrv: Callable[..., ApacheNamesrv]
) -> None:
    server = apache_namesrv()
    new_cluster.start_name_server()
    topic = unique("topic")
    broker = new_cluster.start_broker(namesrvAddr=f"{server.address};{new_cluster.namesrv}")
    java.mqadmin("updateTopic", "-n", new_cluster.namesrv, "-b", broker.address, "-t", topic)
    for address in (server.address, new_cluster.namesrv):
        assert topic in java.mqadmin("topicList", "-n", address)
