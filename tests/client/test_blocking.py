"""The blocking connection of a lone thread, in good and bad weather."""

import threading
from collections.abc import Iterator

import pytest

from ariane import Message, Producer, SendStatus
from ariane.env import SystemClock
from ariane.errors import ArianeError, SendError
from ariane.remoting.blocking import ExclusiveConnection
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


def connections(producer: Producer) -> list[ExclusiveConnection]:
    return list(producer._client._sender.fast._exclusive.values())


def test_a_lone_thread_has_a_connection_of_its_own_and_others_go_through_the_loop(producer: Producer) -> None:
    [connection] = connections(producer)
    assert connection.take()  # somebody is on it
    try:
        assert producer.send(Message("orders", b"x")).status is SendStatus.SEND_OK
    finally:
        connection.give_back()
    assert connection.take()
    connection.give_back()


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


def test_a_closed_connection_cannot_be_taken() -> None:
    connection = ExclusiveConnection("127.0.0.1:1", SystemClock(), 1.0)
    assert not connection.take()  # nobody listens there
    connection.close()
    assert not connection.take()


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
