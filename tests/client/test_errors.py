"""What a user reads after a mistake: what happened, to which server, and what to do."""

import re
from typing import Any, cast

import pytest

from ariane import Message, Producer
from ariane.errors import ArianeError, InvalidMessage, NameServersUnreachable, RouteMissing, SendError
from ariane.testing.cluster import Cluster

NOWHERE = "127.0.0.1:1"


def send(name_servers: str, message: Message, **keywords: Any) -> None:
    with Producer("shop", name_servers=name_servers) as producer:
        producer.send(message, **keywords)


@pytest.mark.parametrize("address", [NOWHERE, "localhost", "no.such.host.invalid:9876"])
def test_a_wrong_name_server_is_named_with_where_to_correct_it(address: str) -> None:
    with pytest.raises(NameServersUnreachable, match=rf"{re.escape(address)}.*check name_servers=.*usual port is 9876"):
        send(address, Message("orders", b"x"))


def test_the_port_of_a_broker_is_no_name_server(ours: Cluster) -> None:
    with Producer("shop", name_servers=ours.name_servers) as producer:
        sent = producer.send(Message("any-topic", b"x"))
        instance = producer._client._running()
        address = instance.routes.master(sent.queue.broker_name)
    assert address is not None
    with pytest.raises(NameServersUnreachable, match=rf"{re.escape(address)} is no name server, perhaps a broker"):
        send(address, Message("orders", b"x"))


def test_a_missing_topic_says_to_create_it() -> None:
    with (
        Cluster(config={"autoCreateTopicEnable": "false"}) as cluster,
        pytest.raises(RouteMissing, match=rf"orders: name server {re.escape(cluster.name_servers)}.*create the topic"),
    ):
        send(cluster.name_servers, Message("orders", b"x"))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "message to orders has an empty body"),
        (cast(bytes, "text"), "orders is str, not bytes: encode it"),
        (b"x" * (5 << 20), "max_message_size is 4194304: send less, or raise it here and at the broker"),
    ],
)
def test_a_body_that_no_broker_takes_says_why(ours: Cluster, body: bytes, says: str) -> None:
    with pytest.raises(InvalidMessage, match=re.escape(says)):
        send(ours.name_servers, Message("orders", body))


@pytest.mark.parametrize("keywords", [{}, {"hash_key": "o-1"}])
def test_a_broker_that_is_down_is_named_with_what_to_do(keywords: dict[str, str]) -> None:
    with Cluster() as cluster, Producer("shop", name_servers=cluster.name_servers) as producer:
        cluster.create_topic("orders", queues=1)
        sent = producer.send(Message("orders", b"x"))
        address = producer._client._running().routes.master(sent.queue.broker_name)
        assert address is not None
        cluster.stop_broker("broker-a")
        with pytest.raises(
            ArianeError, match=rf"{re.escape(address)}.*\((is the broker up|whether the message)"
        ) as failed:
            producer.send(Message("orders", b"x"), **keywords)
    assert isinstance(failed.value, SendError) == (not keywords)
