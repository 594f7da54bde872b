"""Mistakes of a caller are errors at the call, and what goes wrong in the background is said aloud."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ariane
from ariane import (
    ClientOptions,
    ConsumeFrom,
    ConsumeStatus,
    LitePullConsumer,
    Message,
    ProducerOptions,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    TransactionProducer,
    aio,
)
from ariane.client.admin import Admin
from ariane.errors import BrokerRefused, ClientError, InvalidMessage, NotRunning, ReplyTimeout
from ariane.message import RESERVED_PROPERTIES
from ariane.testing.cluster import Cluster
from tests.client.inbox import OK, Inbox, eventually
from tests.peers import Driver, unique
from tests.peers import aio as peer


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES))
def test_a_reserved_property_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Message("T", b"x", properties={name: "1"})


def test_the_properties_of_a_received_message_can_be_forwarded() -> None:
    fields = dict.fromkeys(ReceivedMessage.__dataclass_fields__, 0)
    received = ReceivedMessage(**fields | {"properties": {"KEYS": "k", "UNIQ_KEY": "u", "region": "eu"}})  # type: ignore[arg-type]
    assert Message("T", b"x", properties=received.user_properties).properties == {"region": "eu"}


@pytest.mark.parametrize("keys", ["a b", "", " ", ["a", "b c"], ["a", ""]])
def test_keys_with_blanks_are_refused(keys: Any) -> None:
    with pytest.raises(ValueError, match="blanks"):
        Message("T", b"x", keys=keys)


@pytest.mark.parametrize("properties", [{"a": ""}, {"": "a"}])
def test_empty_names_and_values_which_brokers_would_drop_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="would be lost"):
        Message("T", b"x", properties=properties)


@pytest.mark.parametrize("level", [99, 19, -1])
async def test_a_delay_level_that_brokers_lack_is_refused(ns: str, topic: str, level: int) -> None:
    async with aio.Producer(unique("p"), name_servers=ns) as producer:
        for call in (producer.send, producer.send_oneway, producer.request):
            with pytest.raises(InvalidMessage, match="delay_level"):
                await call(Message(topic, b"x", delay_level=level))
        with pytest.raises(InvalidMessage, match="delay_level"):
            producer.submit(Message(topic, b"x", delay_level=level))


async def test_more_delay_levels_can_be_allowed(ns: str, topic: str) -> None:
    async with aio.Producer(unique("p"), name_servers=ns, delay_levels=30) as producer:
        await producer.send(Message(topic, b"x", delay_level=19))


async def test_a_delivery_time_is_refused_where_brokers_would_deliver_at_once(site: Any, topic: str) -> None:
    async with aio.Producer(unique("p"), name_servers=site.name_servers) as producer:
        timed = Message(topic, b"x", deliver_at=2_000_000_000_000)
        if site.kind == "ariane":
            with pytest.raises(BrokerRefused, match="timerMaxDelaySec"):
                await producer.send(timed)
            return
        if site.kind == "apache5":
            await producer.send(timed)
            return
        for call in (producer.send, producer.submit, producer.send_oneway):
            with pytest.raises(InvalidMessage, match="RocketMQ 5"):
                await call(timed)
        [first, *_] = await producer.queues(topic)
        with pytest.raises(InvalidMessage, match="RocketMQ 5"):
            await producer.send(timed, queue=first)


async def test_a_queue_is_chosen_in_one_way_only(ns: str, topic: str) -> None:
    async with aio.Producer(unique("p"), name_servers=ns) as producer:
        message = Message(topic, b"x")
        for call in (producer.send, producer.send_oneway, producer.request):
            with pytest.raises(InvalidMessage, match="only one"):
                await call(message, hash_key="a", selector=lambda queues, message: queues[0])
        with pytest.raises(InvalidMessage, match="only one"):
            producer.submit(message, hash_key="a", selector=lambda queues, message: queues[0])
        with pytest.raises(InvalidMessage, match="selector returned None"):
            await producer.send(message, selector=lambda queues, message: None)


async def test_a_queue_of_another_topic_is_refused(ns: str, topic: str) -> None:
    async with aio.Producer(unique("p"), name_servers=ns) as producer:
        [queue, *_] = await producer.queues(topic)
        with pytest.raises(InvalidMessage, match="is not a queue of topic other"):
            await producer.send(Message("other", b"x"), queue=queue)


async def test_properties_that_are_no_text_are_refused(ns: str, topic: str) -> None:
    async with aio.Producer(unique("p"), name_servers=ns) as producer:
        await producer.send(Message(topic, b"x", properties={"city": "München"}))
        for call in (producer.send, producer.submit, producer.send_oneway):
            with pytest.raises(InvalidMessage, match="UTF-8"):
                await call(Message(topic, b"x", properties={"city": "\ud800"}))
        with pytest.raises(InvalidMessage, match="UTF-8"):
            await producer.send_batch([Message(topic, b"x", tags="\ud800")])


def no_arguments() -> None: ...


def three_arguments(a: Any, b: Any, c: Any) -> None: ...


def needs_a_keyword(messages: Any, *, context: Any) -> None: ...


def yields(messages: Any) -> Any:
    yield OK


@pytest.mark.parametrize("listener", [no_arguments, three_arguments, needs_a_keyword, yields, "handle"])
def test_a_listener_that_cannot_be_called_is_refused(listener: Any) -> None:
    with pytest.raises(ClientError, match="is not a listener"):
        PushConsumer("g", "T", listener)


class OnlyExecutes:
    def execute(self, message: Any, result: Any, argument: Any) -> None: ...


class WrongCheck(OnlyExecutes):
    def check(self) -> None: ...


@pytest.mark.parametrize("listener", [None, OnlyExecutes(), WrongCheck()])
def test_a_transaction_listener_without_its_methods_is_refused(listener: Any) -> None:
    with pytest.raises(ClientError, match="needs a method"):
        TransactionProducer("g", listener)


@pytest.mark.parametrize("make", [aio.PushConsumer, aio.LitePullConsumer])
async def test_iterating_over_a_consumer_that_does_not_run_is_an_error(ns: str, topic: str, make: Any) -> None:
    consumer = make(unique("g"), topic, name_servers=ns)
    with pytest.raises(NotRunning, match="not started"):
        async for _ in consumer:
            pass
    await consumer.start()
    await consumer.close()
    with pytest.raises(NotRunning, match="closed"):
        async for _ in consumer:
            pass


@pytest.mark.parametrize("make", [PushConsumer, LitePullConsumer])
def test_iterating_in_a_thread_over_a_consumer_that_does_not_run_is_an_error(make: Any) -> None:
    with pytest.raises(NotRunning, match="not started"):
        next(iter(make("g", "T", name_servers="127.0.0.1:1")))


def test_options_do_not_show_secrets() -> None:
    secrets = {"access_key": "me", "secret_key": "pst-secret", "security_token": "pst-token"}
    for options in (ClientOptions(**secrets), ProducerOptions(**secrets), PushOptions(**secrets)):
        assert "pst" not in repr(options)
        assert "me" in repr(options)
        assert options.secret_key == "pst-secret"


def test_a_missing_reply_is_a_timeout() -> None:
    assert issubclass(ReplyTimeout, TimeoutError)
    assert issubclass(ReplyTimeout, ClientError)


def test_every_public_name_can_be_imported() -> None:
    for name in ariane.__all__:
        assert getattr(ariane, name).__name__ if name != "Listener" else ariane.Listener
    assert {"TransactionListener", "TransactionResult", "QueueLag", "TopicStats", "ConsumeStats"} <= set(ariane.__all__)


async def test_nothing_committed_is_none(ns: str, topic: str, group: str, admin: Admin) -> None:
    async with (
        aio.Producer(unique("p"), name_servers=ns) as producer,
        aio.LitePullConsumer(
            group, topic, name_servers=ns, auto_commit=False, consume_from=ConsumeFrom.FIRST
        ) as consumer,
    ):
        [queue, other, *_] = await consumer.queues(topic)
        await producer.send(Message(topic, b"x"), queue=queue)
        while not await consumer.poll():
            pass
        assert await consumer.committed(queue) is None
        assert await admin.committed(group, queue) is None
        await consumer.commit({queue: 0})
        assert await consumer.committed(queue) == 0
        await consumer.commit({queue: 1})
        assert await consumer.committed(queue) == 1
        assert await consumer.committed(other) is None


async def test_a_topic_that_comes_later_is_found_within_a_moment(ns: str, admin: Admin, group: str) -> None:
    topic, inbox = unique("later"), Inbox()
    async with (
        aio.PushConsumer(group, topic, inbox, name_servers=ns, rebalance_interval=3600, consume_from=ConsumeFrom.FIRST),
        aio.Producer(unique("p"), name_servers=ns) as producer,
    ):
        await admin.create_topic(topic, queues=1)
        await producer.send(Message(topic, b"first"))
        await inbox.arrived(1)


@pytest.mark.parametrize("answer", [lambda *_: True, lambda *_: sys.exit(1), lambda *_: None])
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_a_wrong_answer_is_a_failure_and_is_logged(
    ours: Cluster, group: str, answer: Any, orderly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    topic, tries = unique("topic"), 0
    ours.create_topic(topic, queues=1)
    inbox = Inbox()

    def listen(messages: list[ReceivedMessage]) -> Any:
        nonlocal tries
        tries += 1
        return answer(messages) if tries == 1 else inbox(messages, None)  # type: ignore[arg-type]

    ns = ours.name_servers
    async with (
        aio.PushConsumer(group, topic, listen, name_servers=ns, orderly=orderly, threads=1),
        aio.Producer(unique("p"), name_servers=ns) as producer,
    ):
        await producer.send(Message(topic, b"x"))
        await inbox.arrived(1)
    assert re.search("a listener (failed|returned None)", caplog.text)


async def test_a_coroutine_listener_that_exits_or_is_cancelled_goes_on(ours: Cluster, group: str) -> None:
    topic, tries = unique("topic"), 0
    ours.create_topic(topic, queues=1)
    done = asyncio.Event()

    async def listen(messages: list[ReceivedMessage]) -> ConsumeStatus:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise SystemExit(1)
        if tries == 2:
            raise asyncio.CancelledError
        done.set()
        return OK

    ns = ours.name_servers
    async with (
        aio.PushConsumer(group, topic, listen, name_servers=ns, threads=1),
        aio.Producer(unique("p"), name_servers=ns) as producer,
    ):
        await producer.send(Message(topic, b"x"))
        await asyncio.wait_for(done.wait(), 60)


async def test_background_work_that_fails_is_logged_and_started_again(
    ours: Cluster, group: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ariane.client.consumer.queues.puller import Puller
    from ariane.client.consumer.queues.rebalance import Rebalance

    topic, inbox = unique("topic"), Inbox()
    ours.create_topic(topic, queues=1)
    broken = {"pull_once", "now"}

    def breaking(kind: Any, name: str) -> None:
        real = getattr(kind, name)

        async def once(self: Any, *arguments: Any) -> Any:
            if name in broken:
                broken.discard(name)
                raise KeyError(f"{name} breaks")
            return await real(self, *arguments)

        monkeypatch.setattr(kind, name, once)

    breaking(Puller, "pull_once")
    ns = ours.name_servers
    async with (
        aio.PushConsumer(group, topic, inbox, name_servers=ns, rebalance_interval=0.2),
        aio.Producer(unique("p"), name_servers=ns) as producer,
    ):
        breaking(Rebalance, "now")
        await eventually(lambda: not broken, "both tasks to break")
        await producer.send(Message(topic, b"x"))
        await inbox.arrived(1)
    assert "pull_once breaks" in caplog.text
    assert "now breaks" in caplog.text


FLOOD = """
import asyncio, gc, sys
from ariane import Message, Producer, aio
from ariane.testing.cluster import Cluster

def threads(cluster):
    producer = Producer("g", name_servers=cluster.name_servers, send_timeout=1.0).start()
    producer.send(Message("t", b"x"))
    cluster.network.drop()
    for _ in range(500):
        producer.submit(Message("t", b"x"))
    producer.close()

async def loop(cluster):
    producer = await aio.Producer("g", name_servers=cluster.name_servers, send_timeout=1.0).start()
    await producer.send(Message("t", b"x"))
    cluster.network.down()
    for _ in range(500):
        producer.submit(Message("t", b"x"))
    await producer.close()

with Cluster() as cluster:
    cluster.create_topic("t")
    threads(cluster) if sys.argv[1] == "threads" else asyncio.run(loop(cluster))
    gc.collect()
"""


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_a_flood_at_close_is_told_in_one_line(kind: str) -> None:
    ran = subprocess.run([sys.executable, "-c", FLOOD, kind], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "never retrieved" not in ran.stderr
    assert len([line for line in ran.stderr.splitlines() if "submitted messages failed at close" in line]) == 1


SILENT: dict[str, tuple[str, str]] = {
    "raises": ("raise ValueError('on purpose')", "on purpose"),
    "returns None": ("return None", "returned None"),
    "name server is down": ("return None", "no name server answered"),
}


@pytest.mark.parametrize("kind", SILENT)
def test_without_logging_configured_failures_show_on_stderr(kind: str, ours: Cluster, tmp_path: Path) -> None:
    body, words = SILENT[kind]
    topic = unique("topic")
    ours.create_topic(topic, queues=1)
    name_servers = "127.0.0.1:1" if "down" in kind else ours.name_servers
    script = f"""
import sys, threading
from ariane import ConsumeFrom, Message, Producer, PushConsumer
called = threading.Event()
def handle(messages):
    called.set()
    {body}
if {"down" not in kind}:
    with Producer("p", name_servers={name_servers!r}) as producer:
        producer.send(Message({topic!r}, b"x"))
with PushConsumer({unique("g")!r}, {topic!r}, handle, name_servers={name_servers!r}, consume_from=ConsumeFrom.FIRST):
    if {"down" not in kind}:
        called.wait(60)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert words in ran.stderr


async def test_running_info_has_what_a_java_consumer_tells(ns: str, topic: str, group: str, java: Driver) -> None:
    theirs = unique("java")
    async with (
        aio.PushConsumer(group, topic, Inbox(), name_servers=ns) as consumer,
        await peer(java).admin(ns) as admin,
        await peer(java).push_consumer(ns, {topic: "*"}, group=theirs),
    ):
        [member] = (await admin.invoke("examineConsumerConnectionInfo", theirs))["connectionSet"]
        expected = (await admin.invoke("getConsumerRunningInfo", theirs, member["clientId"], False))["properties"]
        found = (await admin.invoke("getConsumerRunningInfo", group, consumer.client_id, False))["properties"]
    meaningless = {"log", "defaultMQPushConsumerImpl", "adjustThreadPoolNumsThreshold"}  # objects and pools of Java's
    assert expected.keys() - found.keys() <= meaningless
    same = ["messageModel", "pullBatchSize", "pullThresholdForQueue", "pullThresholdSizeForQueue", "consumeTimeout"]
    same += ["consumeConcurrentlyMaxSpan", "consumeThreadMax", "maxReconsumeTimes", "suspendCurrentQueueTimeMillis"]
    assert {name: found[name] for name in same} == {name: expected[name] for name in same}


async def test_consuming_directly_calls_no_hooks(ns: str, topic: str, group: str, java: Driver) -> None:
    seen: list[str] = []

    class Watcher:
        def before_consume(self, context: Any) -> None:
            seen.append("before")

        def after_consume(self, context: Any) -> None:
            seen.append("after")

    inbox = Inbox()
    async with (
        aio.PushConsumer(
            group, topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST, consume_hooks=[Watcher()]
        ) as consumer,
        aio.Producer(unique("p"), name_servers=ns) as producer,
        await peer(java).admin(ns) as admin,
    ):
        sent = await producer.send(Message(topic, b"x"))
        await inbox.arrived(1)
        await eventually(lambda: "after" in seen, "the hooks of the first delivery")
        await admin.invoke("consumeMessageDirectly", group, consumer.client_id, topic, sent.message_id)
        await inbox.arrived(2)
    assert seen == ["before", "after"]
