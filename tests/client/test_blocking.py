"""The blocking connections of threads, in good and bad weather."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ariane import Message, Producer, SendStatus
from ariane.errors import ArianeError, SendError
from ariane.remoting.blocking import ThreadConnections
from ariane.testing.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=2)
        yield cluster


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Producer]:
    with Producer("shop", name_servers=cluster.name_servers) as producer:
        for _ in range(3):
            producer.send(Message("orders", b"first ones find the way"))
        yield producer


def connections(producer: Producer) -> ThreadConnections:
    [found] = producer._client._sender.fast._blocking.values()
    return found


def test_threads_have_connections_of_their_own_and_others_go_through_the_loop(producer: Producer) -> None:
    assert len(connections(producer)) == 1
    connections(producer).most = 2

    def send(_: int) -> SendStatus:
        return producer.send(Message("orders", b"x")).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(send, range(400))) == {SendStatus.SEND_OK}
    assert 1 <= len(connections(producer)) <= 2


def test_a_connection_that_was_cut_is_noticed_and_nothing_is_lost(cluster: Cluster, producer: Producer) -> None:
    for _ in range(3):
        cluster.network.cut()
        assert producer.send(Message("orders", b"x")).status is SendStatus.SEND_OK


def test_a_silent_broker_is_given_up_in_time_and_found_again(cluster: Cluster, producer: Producer) -> None:
    cluster.network.drop("broker-a")
    with pytest.raises(SendError, match=r"did not answer within 0.3 s.*the time-out of 0.3 s over all tries is up"):
        producer.send(Message("orders", b"lost"), timeout=0.3)
    cluster.network.restore()
    assert producer.send(Message("orders", b"x"), timeout=30).status is SendStatus.SEND_OK


def test_a_broker_that_restarts_gets_a_new_connection(cluster: Cluster, producer: Producer) -> None:
    cluster.stop_broker("broker-a")
    with pytest.raises(ArianeError, match=r"is the broker up|is not known"):
        producer.send(Message("orders", b"x"))
    cluster.start_broker("broker-a")
    assert producer.send(Message("orders", b"x"), timeout=30).status is SendStatus.SEND_OK


def test_closing_a_producer_ends_the_send_of_another_thread(cluster: Cluster, producer: Producer) -> None:
    cluster.network.drop("broker-a")
    ended = threading.Event()

    def send() -> None:
        try:
            producer.send(Message("orders", b"x"), timeout=20)
        except ArianeError:
            ended.set()

    sender = threading.Thread(target=send)
    sender.start()
    producer.close()
    sender.join(30)
    assert ended.is_set()
