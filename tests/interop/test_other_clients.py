"""Apache's Go and C++ clients through our name server and broker, without one line of Java."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ariane import PullClient
from ariane.message import retry_topic
from tests.cluster import Cluster
from tests.interop.other_clients import Consumer, Peer, PeerMissing, PeerRefused, Producer
from tests.interop.other_clients.cpp_client import cpp_driver
from tests.interop.other_clients.go_client import go_driver
from tests.interop.other_clients.java_client import java_client, round_trip, timed_sends
from tests.interop.other_clients.peer import WAIT
from tests.peers import unique, until

T = TypeVar("T")
FIELDS: dict[str, Any] = {"tags": "TagA", "keys": ["k1", "k2"], "properties": {"colour": "grün"}}


def available(build: Callable[[], T]) -> T:
    """What was built, or the reason why it is not to be had here."""
    try:
        return build()
    except PeerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A process with Apache's Go client."""
    peer = Peer([str(available(go_driver))], tmp_path_factory.mktemp("go"))
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A process with Apache's C++ client."""
    peer = Peer(available(cpp_driver), tmp_path_factory.mktemp("cpp"))
    yield peer
    peer.close()


@pytest.fixture(params=["go", "cpp"])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Either of them."""
    peer: Peer = request.getfixturevalue(request.param)
    return peer


def group_with_retry_topic(cluster: Cluster) -> str:
    """A group whose retry topic is there before its first consumer: the clients look for its route only at times."""
    group = unique("group")
    cluster.call(lambda: cluster.broker.topics.ensure(retry_topic(group), 1))
    return group


def test_every_way_to_send_arrives_as_it_was_sent(quick: Cluster, peer: Peer) -> None:
    topic = unique("kinds")
    with peer.producer(quick.namesrv) as producer:
        sent = producer.send(topic, "sync", **FIELDS)
        assert sent["status"] == 0
        assert producer.send(topic, "async", mode="async", **FIELDS)["status"] == 0
        producer.send(topic, "oneway", mode="oneway", **FIELDS)
        assert producer.send(topic, "batch-0", "batch-1", **FIELDS)["status"] == 0
        with peer.consumer(quick.namesrv, topic, tags="*") as consumer:
            messages = consumer.await_messages(5)
    assert sorted(m["body"] for m in messages) == ["async", "batch-0", "batch-1", "oneway", "sync"]
    for message in messages:
        assert (message["tags"], message["keys"]) == ("TagA", "k1 k2")
        assert message.get("colour") or message["properties"]["colour"] == "grün"
    [first] = [m for m in messages if m["body"] == "sync"]
    assert (first["msgId"], first["offset"]) == (sent["msgId"], sent["offset"])


def test_a_large_body_arrives_whole(quick: Cluster, peer: Peer) -> None:
    topic, body = unique("large"), "0123456789" * 2000
    with peer.producer(quick.namesrv) as producer:
        producer.send(topic, body)
        with peer.consumer(quick.namesrv, topic, tags="*") as consumer:
            assert [m["body"] for m in consumer.await_messages(1)] == [body]


def test_tags_are_filtered_at_the_broker(quick: Cluster, peer: Peer) -> None:
    topic = unique("tags")
    with peer.producer(quick.namesrv) as producer:
        for tag in ("A", "B", "C"):
            producer.send(topic, tag, tags=tag)
        with peer.consumer(quick.namesrv, topic, tags="A || C") as consumer:
            assert sorted(m["body"] for m in consumer.await_messages(2)) == ["A", "C"]


def test_messages_of_one_key_are_consumed_in_their_order(quick: Cluster, peer: Peer) -> None:
    topic, group = unique("ordered"), unique("group")
    with peer.producer(quick.namesrv) as producer:
        for i in range(10):
            for key in ("a", "b"):
                producer.send(topic, f"{key}{i}", mode="orderly", shardingKey=key)
        with peer.consumer(quick.namesrv, topic, tags="*", kind="orderly", group=group) as consumer:
            bodies = [m["body"] for m in consumer.await_messages(20)]
    for key in ("a", "b"):
        assert [b for b in bodies if b[0] == key] == [f"{key}{i}" for i in range(10)]


def test_a_failing_message_comes_back(quick: Cluster, peer: Peer) -> None:
    topic, group = unique("retry"), group_with_retry_topic(quick)
    with peer.producer(quick.namesrv) as producer:
        producer.send(topic, "again", keys=["k"])
        with peer.consumer(quick.namesrv, topic, group=group, tags="*", fail=1) as consumer:
            tries = consumer.await_messages(2)
    assert [(m["body"], m["keys"], m["reconsumed"]) for m in tries] == [("again", "k", 0), ("again", "k", 1)]


def test_a_delayed_message_is_never_early(quick: Cluster, peer: Peer) -> None:
    topic = unique("delay")
    with peer.producer(quick.namesrv) as producer:
        producer.send(topic, "now")
        with peer.consumer(quick.namesrv, topic, tags="*") as consumer:
            consumer.await_messages(1)
            producer.send(topic, "later", delay=3)
            late = consumer.await_messages(2)[1]
    assert late["body"] == "later"
    assert late["stored"] - late["born"] >= 1000


def test_every_member_of_a_broadcasting_group_gets_everything(quick: Cluster, peer: Peer) -> None:
    topic, group = unique("broadcast"), unique("group")
    options = {"tags": "*", "kind": "broadcast", "group": group}
    with peer.producer(quick.namesrv) as producer:
        producer.send(topic, "create the topic")
        with (
            peer.consumer(quick.namesrv, topic, **options) as first,
            peer.consumer(quick.namesrv, topic, **options) as second,
        ):
            for member in (first, second):
                send_until_it_listens(producer, topic, member)
            producer.send(topic, "for all")
            for member in (first, second):
                received: list[str] = []
                while "for all" not in received:
                    received = [m["body"] for m in member.await_messages(len(received) + 1)]


def send_until_it_listens(producer: Producer, topic: str, consumer: Consumer) -> None:
    """A broadcasting C++ consumer begins at the end of the queues, wherever that is when it looks."""
    while not consumer.call("await", count=1, seconds=1)["messages"]:
        producer.send(topic, "anybody?")


def test_members_of_a_group_share_the_queues(quick: Cluster, peer: Peer) -> None:
    topic, group = unique("shared"), unique("group")
    with peer.producer(quick.namesrv) as producer:
        producer.send(topic, "create the topic")
        with (
            peer.consumer(quick.namesrv, topic, tags="*", group=group) as first,
            peer.consumer(quick.namesrv, topic, tags="*", group=group) as second,
        ):
            bodies = [f"m{i}" for i in range(40)]
            for body in bodies:
                producer.send(topic, body)
            both: list[str] = []
            while len(set(both)) < 41:
                both = [m["body"] for member in (first, second) for m in member.await_messages(1)]
    assert sorted(set(both) - {"create the topic"}) == sorted(bodies)


def test_a_pull_consumer_gets_what_was_sent(quick: Cluster, peer: Peer) -> None:
    topic = unique("pull")
    with peer.producer(quick.namesrv) as producer:
        for i in range(8):
            producer.send(topic, f"m{i}")
        with peer.consumer(quick.namesrv, topic, kind="pull", tags="*") as consumer:
            assert sorted(m["body"] for m in consumer.poll(8)) == [f"m{i}" for i in range(8)]


def test_one_client_sends_and_the_other_receives(quick: Cluster, go: Peer, cpp: Peer) -> None:
    for sender, receiver in ((go, cpp), (cpp, go)):
        topic = unique("across")
        with sender.producer(quick.namesrv) as producer:
            sent = producer.send(topic, "hello", **FIELDS)
        with receiver.consumer(quick.namesrv, topic, tags="TagA") as consumer:
            [message] = consumer.await_messages(1)
        assert (message["body"], message["keys"], message["msgId"]) == ("hello", "k1 k2", sent["msgId"])


def test_go_filters_by_sql92(quick: Cluster, go: Peer) -> None:
    topic = unique("sql")
    with go.producer(quick.namesrv) as producer:
        for n in range(5):
            producer.send(topic, str(n), properties={"n": str(n)})
        with go.consumer(quick.namesrv, topic, sql="n BETWEEN 1 AND 3 AND n <> 2") as consumer:
            assert sorted(m["body"] for m in consumer.await_messages(2)) == ["1", "3"]


def test_a_message_that_go_never_accepts_ends_as_a_dead_letter(quick: Cluster, go: Peer) -> None:
    topic, group = unique("poison"), group_with_retry_topic(quick)
    with go.producer(quick.namesrv) as producer:
        sent = producer.send(topic, "poison")
        with go.consumer(quick.namesrv, topic, group=group, tags="*", fail=99, retries=1) as consumer:
            assert [m["reconsumed"] for m in consumer.await_messages(2)] == [0, 1]
            dead = f"%DLQ%{group}"
            until(lambda: dead in go.call("topics", namesrv=quick.namesrv)["topics"], WAIT, f"a route of {dead}")
            with go.consumer(quick.namesrv, dead, tags="*") as undertaker:
                [letter] = undertaker.await_messages(1)
    assert letter["body"] == "poison"
    assert letter["properties"]["ORIGIN_MESSAGE_ID"] == sent["offsetMsgId"]


def test_go_transactions_commit_roll_back_and_are_checked(quick: Cluster, go: Peer) -> None:
    topic = unique("transaction")
    with go.producer(quick.namesrv, kind="transaction") as producer:
        producer.send_in_transaction(topic, "committed", "commit")
        producer.send_in_transaction(topic, "rolled back", "rollback")
        producer.send_in_transaction(topic, "checked", "unknown", ["unknown", "commit"])
        with go.consumer(quick.namesrv, topic, tags="*") as consumer:
            assert {m["body"] for m in consumer.await_messages(2)} == {"committed", "checked"}
        assert set(producer.await_checks(2)) == {"checked"}


def test_a_go_request_gets_its_reply(quick: Cluster, go: Peer) -> None:
    topic = unique("request")
    with go.producer(quick.namesrv) as replier, go.producer(quick.namesrv) as asker:
        for producer in (replier, asker):
            producer.send(topic, "create it")
        # The client's first heartbeat comes a second after its start; before that no reply finds it.
        until(lambda: quick.call(lambda: quick.broker.clients.producers(asker.group)), WAIT, "a heartbeat")
        with go.consumer(quick.namesrv, topic, tags="*", reply="pong", mode=replier.handle) as consumer:
            consumer.await_messages(2)
            assert asker.request(topic, "ping") == "pong"


def test_go_namespaces_keep_topics_apart(quick: Cluster, go: Peer) -> None:
    topic, group = unique("spaces"), unique("group")
    for space in ("one", "two"):
        with go.producer(quick.namesrv, namespace=space) as producer:
            producer.send(topic, space)
    for space in ("one", "two"):
        with go.consumer(quick.namesrv, topic, group=group, namespace=space, tags="*") as consumer:
            assert [m["body"] for m in consumer.await_messages(1)] == [space]
    topics = go.call("topics", namesrv=quick.namesrv)["topics"]
    assert {f"one%{topic}", f"two%{topic}", f"%RETRY%one%{group}"} <= set(topics)


def test_go_traces_reach_the_trace_topic(quick: Cluster, go: Peer) -> None:
    topic = unique("traced")
    with go.consumer(quick.namesrv, "RMQ_SYS_TRACE_TOPIC", tags="*") as traces:
        with go.producer(quick.namesrv, trace=True) as producer:
            sent = producer.send(topic, "traced")
            with go.consumer(quick.namesrv, topic, tags="*", trace=True) as consumer:
                consumer.await_messages(1)
        mine: list[str] = []
        count = 1
        while len(mine) < 2:  # one trace of the send, one or two of the consuming
            mine = [m["body"] for m in traces.await_messages(count) if sent["msgId"] in m["body"]]
            count += 1
    assert any(body.startswith("Pub") for body in mine)
    assert any(body.startswith("Sub") for body in mine)


def test_go_pulls_from_any_offset_of_a_queue(quick: Cluster, go: Peer) -> None:
    topic, broker = unique("offsets"), quick.broker.options.broker_name
    with go.producer(quick.namesrv) as producer:
        for i in range(5):
            producer.send(topic, f"m{i}", queue=2, properties={"broker": broker})
    with go.consumer(quick.namesrv, topic, kind="pull", tags="*") as consumer:
        where = {"topic": topic, "queue": 2, "broker": broker}
        got = consumer.call("pull_from", **where, offset=2, count=2)
        end = consumer.call("pull_from", **where, offset=99, count=2)
    assert [m["body"] for m in got["messages"]] == ["m2", "m3"]
    assert (got["next"], got["min"], got["max"]) == (4, 0, 5)
    assert (end["messages"], end["next"]) == ([], 5)


def test_go_creates_lists_and_deletes_topics(quick: Cluster, go: Peer) -> None:
    topic = unique("admin")
    where = {"namesrv": quick.namesrv, "broker": quick.broker_address}
    go.call("create", topic=topic, queues=3, **where)
    assert topic in go.call("topics", **where)["topics"]
    with go.producer(quick.namesrv) as producer:
        assert {producer.send(topic, "m")["queue"] for _ in range(6)} == {0, 1, 2}
    with go.consumer(quick.namesrv, topic, tags="*") as consumer:
        until(lambda: consumer.group in go.call("groups", **where)["groups"], WAIT, "the group")
    go.call("delete", topic=topic, **where)
    assert topic not in go.call("topics", **where)["topics"]


def test_a_refusal_reaches_the_caller_with_its_reason(quick: Cluster, go: Peer) -> None:
    properties = {"long": "x" * 40_000}
    with go.producer(quick.namesrv) as producer, pytest.raises(PeerRefused, match="the message is illegal"):
        producer.send(unique("refused"), "refused", properties=properties)


ROUND_TRIP = [
    "orderly other tag",
    "pulled 14",
    "pushed COMMIT_MESSAGE",
    "pushed UNKNOW",
    "pushed again",
    "pushed async",
    "pushed batch 0",
    "pushed batch 1",
    "pushed delayed",
    "pushed large 20000",
    "pushed oneway",
    "pushed ordered 0",
    "pushed ordered 1",
    "pushed ordered 2",
    "pushed sync",
    "refused again",
]


@pytest.mark.usefixtures("peers")
@pytest.mark.parametrize("version", ["4.4.0", "5.3.3"])
def test_older_and_newer_java_clients_work_too(quick: Cluster, tmp_path: Path, version: str) -> None:
    topic, group = unique("versions"), group_with_retry_topic(quick)
    client = available(lambda: java_client(version))
    assert round_trip(client, tmp_path, quick.namesrv, topic, group, "15") == ROUND_TRIP


@pytest.mark.usefixtures("peers")
def test_delivery_times_of_the_newer_java_client_are_kept(quick: Cluster, tmp_path: Path) -> None:
    topic = unique("timed")
    lines = timed_sends(available(lambda: java_client("5.3.3")), tmp_path, quick.namesrv, topic)
    due = {way: int(at) for way, status, at in (line.split() for line in lines) if status == "SEND_OK"}
    assert due.keys() == {"deliverTimeMs", "delayTimeMs", "delayTimeSec"}
    with PullClient(name_servers=quick.namesrv) as reader:

        def delivered() -> dict[str, int]:
            return {
                message.body.decode(): message.store_time
                for queue in reader.queues(topic)
                for message in reader.pull_messages(queue, 0)
            }

        until(lambda: len(delivered()) == len(due), WAIT, "three messages")
        stored = delivered()
    assert {way: at >= due[way] for way, at in stored.items()} == dict.fromkeys(due, True)
