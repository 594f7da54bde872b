"""Programs that end without closing their clients: offsets are stored, groups are left, and nothing hangs."""

import subprocess
import sys
import textwrap

import pytest

from ariane import Admin, Message, Producer
from ariane.errors import BrokerRefused
from ariane.testing.cluster import Cluster
from tests.peers import unique

CONSUME = """
    import threading
    from ariane import ConsumeFrom, ConsumeStatus, PushConsumer
    seen = threading.Event()
    def handle(messages):
        seen.set()
        return ConsumeStatus.CONSUME_SUCCESS
    consumer = PushConsumer({group!r}, {topic!r}, handle, name_servers={ns!r}, consume_from=ConsumeFrom.FIRST).start()
    assert seen.wait(30)
    print("seen", flush=True)
"""
PRODUCE = """
    from ariane import Message, Producer
    producer = Producer({group!r}, name_servers={ns!r}).start()
    producer.send(Message({topic!r}, b"never closed"))
    print("sent", flush=True)
"""
ENDS = {"the end": "", "an error": "raise ValueError('no')", "sys.exit": "import sys; sys.exit(7)"}
CODES = {"the end": 0, "an error": 1, "sys.exit": 7}


def run(text: str, end: str = "the end") -> "subprocess.CompletedProcess[str]":
    script = textwrap.dedent(text) + "\n" + ENDS[end]
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("end", ENDS)
def test_a_consumer_that_nobody_closed_stores_its_offsets_and_leaves(ours: Cluster, end: str) -> None:
    topic, group = unique("topic"), unique("group")
    ours.create_topic(topic, queues=1)
    with Producer(unique("producers"), name_servers=ours.name_servers) as producer:
        producer.send(Message(topic, b"x"))
    ended = run(CONSUME.format(group=group, topic=topic, ns=ours.name_servers), end)
    assert ended.returncode == CODES[end], ended.stderr
    with Admin(name_servers=ours.name_servers) as admin:
        assert admin.committed(group, admin.queues(topic)[0]) == 1
        with pytest.raises(BrokerRefused, match="CONSUMER_NOT_ONLINE"):
            admin.consumer_connections(group)
    assert ("ValueError" in ended.stderr) == (end == "an error")
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("end", ENDS)
def test_a_producer_that_nobody_closed_does_not_hold_the_end_up(ours: Cluster, end: str) -> None:
    topic = unique("topic")
    ended = run(PRODUCE.format(group=unique("group"), topic=topic, ns=ours.name_servers), end)
    assert (ended.returncode, ended.stdout) == (CODES[end], "sent\n"), ended.stderr


def test_a_thread_may_send_after_the_main_thread_has_ended(ours: Cluster) -> None:
    text = (
        PRODUCE.format(group=unique("group"), topic=unique("topic"), ns=ours.name_servers)
        + """
    import threading
    main = threading.main_thread()
    def late():
        main.join()
        producer.send(Message("orders", b"x"))
        print("sent late", flush=True)
    threading.Thread(target=late).start()
"""
    )
    ended = run(text)
    assert (ended.returncode, ended.stdout) == (0, "sent\nsent late\n"), ended.stderr


def test_a_program_ends_though_its_broker_is_gone() -> None:
    topic, group = unique("topic"), unique("group")
    with Cluster() as cluster:
        cluster.create_topic(topic, queues=1)
        with Producer(unique("producers"), name_servers=cluster.name_servers) as producer:
            producer.send(Message(topic, b"x"))
        script = textwrap.dedent(CONSUME.format(group=group, topic=topic, ns=cluster.name_servers)) + "\ninput()\n"
        program = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert program.stdout is not None
        assert program.stdout.readline() == "seen\n"
    try:
        program.communicate("\n", timeout=30)
        assert program.returncode == 0
    finally:
        program.kill()
