"""The clients for plain threads: derived, quick to start, safe after fork."""

import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

import ariane
from ariane import ConsumeFrom, ConsumeStatus, Message, ProducerOptions, PushOptions, SendStatus
from ariane.client.consumer.allocate import by_circle
from ariane.errors import ForkedClient
from ariane.testing.cluster import Cluster
from tests.client.inbox import Inbox
from tests.peers import unique

ROOT = Path(__file__).parent.parent.parent


def test_the_clients_for_threads_are_what_the_script_derives() -> None:
    derived = subprocess.run([sys.executable, ROOT / "scripts" / "derive_sync.py", "--check"], check=False)
    assert derived.returncode == 0, "run scripts/derive_sync.py"


def test_a_producer_and_a_consumer_in_plain_threads(site: object, ns: str) -> None:
    topic = unique("topic")
    inbox = Inbox()
    with ariane.Admin(name_servers=ns) as admin, ariane.Producer(unique("p"), name_servers=ns) as producer:
        admin.create_topic(topic, queues=4)
        with ariane.PushConsumer(
            unique("g"), topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST
        ) as consumer:
            assert producer.send(Message(topic, b"waited for")).status is SendStatus.SEND_OK
            assert producer.submit(Message(topic, b"in a future")).result(10).status is SendStatus.SEND_OK
            producer.send_oneway(Message(topic, b"one way"))
            producer.send_batch([Message(topic, b"batch 1"), Message(topic, b"batch 2")])
            inbox.wait(5)
            assert consumer.stats().threads == 20
    assert sorted(inbox.bodies) == [b"batch 1", b"batch 2", b"in a future", b"one way", b"waited for"]


def test_iterating_in_a_plain_thread(ours: Cluster) -> None:
    topic = unique("topic")
    ours.create_topic(topic, queues=2)
    with ariane.Producer(unique("p"), name_servers=ours.name_servers) as producer:
        for i in range(4):
            producer.send(Message(topic, b"%d" % i))
    options = {"name_servers": ours.name_servers, "consume_from": ConsumeFrom.FIRST}
    seen = set()
    with ariane.PushConsumer(unique("g"), topic, **options) as consumer:
        for message in consumer:
            seen.add(message.body)
            if len(seen) == 4:
                break
    with ariane.LitePullConsumer(unique("g"), topic, **options) as poller:
        polled = {message.body for message in islice(poller, 4)}
    assert seen == polled == {b"0", b"1", b"2", b"3"}


def test_many_threads_share_one_producer_and_each_goes_round_by_itself(ours: Cluster) -> None:
    topic = unique("topic")
    ours.create_topic(topic, queues=4)
    ready = threading.Barrier(8)

    def send(_: int) -> list[int]:
        ready.wait(30)
        return [producer.send(Message(topic, b"x")).queue.queue_id for _ in range(8)]

    with ariane.Producer(unique("p"), name_servers=ours.name_servers) as producer, ThreadPoolExecutor(8) as pool:
        rounds = list(pool.map(send, range(8)))
    for queues in rounds:
        assert sorted(queues[:4]) == [0, 1, 2, 3]
        assert queues[:4] == queues[4:]
    assert Counter(queue for queues in rounds for queue in queues) == dict.fromkeys(range(4), 16)


def test_a_listener_may_use_a_producer(ours: Cluster) -> None:
    source, target = unique("source"), unique("target")
    ours.create_topic(source)
    ours.create_topic(target)
    inbox = Inbox()
    options = {"name_servers": ours.name_servers, "consume_from": ConsumeFrom.FIRST}

    def forward(messages: list[ariane.ReceivedMessage]) -> ConsumeStatus:
        for message in messages:
            producer.send(Message(target, message.body.upper()))
        return ConsumeStatus.CONSUME_SUCCESS

    with (
        ariane.Producer(unique("p"), name_servers=ours.name_servers) as producer,
        ariane.PushConsumer(unique("g"), source, forward, **options),
        ariane.PushConsumer(unique("g"), target, inbox, **options),
    ):
        producer.send(Message(source, b"hello"))
        inbox.wait(1)
    assert inbox.bodies == [b"HELLO"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_gets_a_clear_error_and_may_make_a_client_of_its_own(ours: Cluster) -> None:
    topic = unique("topic")
    ours.create_topic(topic)
    with ariane.Producer(unique("p"), name_servers=ours.name_servers) as producer:
        producer.send(Message(topic, b"parent"))
        child = os.fork()
        if child == 0:
            os._exit(in_the_child(producer, topic, ours.name_servers))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.send(Message(topic, b"parent again")).status is SendStatus.SEND_OK
    with ariane.PullClient(name_servers=ours.name_servers) as reader:
        bodies = {m.body for queue in reader.queues(topic) for m in reader.pull_messages(queue, 0)}
    assert bodies == {b"parent", b"parent again", b"child"}


def in_the_child(inherited: ariane.Producer, topic: str, name_servers: str) -> int:
    try:
        inherited.send(Message(topic, b"x"))
        return 1
    except ForkedClient as error:
        if "make a new one" not in str(error):
            return 2
    try:
        with ariane.Producer(unique("p"), name_servers=name_servers) as own:
            own.send(Message(topic, b"child"))
    except Exception:
        return 3
    return 0


def test_options_travel_to_other_processes() -> None:
    producer = ProducerOptions(name_servers="a:9876;b:9876", retries=5)
    consumer = PushOptions(name_servers=["a:9876"], allocate=by_circle, consume_from=ConsumeFrom.FIRST)
    assert pickle.loads(pickle.dumps(producer)) == producer
    assert pickle.loads(pickle.dumps(consumer)) == consumer
    assert producer.addresses == ("a:9876", "b:9876")


def test_importing_ariane_loads_no_client() -> None:
    code = "import ariane, sys; assert not [m for m in sys.modules if m.startswith('ariane.client')]; ariane.Producer"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_client_is_quiet_unless_asked(ours: Cluster) -> None:
    code = (
        "import ariane\n"
        f"with ariane.Producer('g', name_servers={ours.name_servers!r}) as producer:\n"
        "    try: producer.send(ariane.Message('T', b'x'), queue=ariane.MessageQueue('T', 'nowhere', 0))\n"
        "    except ariane.errors.ClientError: pass\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_a_broken_call_leaves_no_thread_behind(ours: Cluster) -> None:
    before = threading.active_count()
    with ariane.PushConsumer(unique("g"), "nothing", Inbox(), name_servers=ours.name_servers):
        assert threading.active_count() <= before + 2  # one loop for all clients, and no listener thread without work
