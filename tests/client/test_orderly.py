"""Orderly consuming, against our broker and Apache's."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ariane import ConsumeFrom, ConsumeStatus, Delivery, Message, ReceivedMessage, aio
from ariane.client.admin import Admin
from ariane.client.connect.tasks import Tasks
from ariane.client.consumer.listen.orderly import Orderly
from ariane.client.consumer.listen.runners import Batch
from ariane.client.consumer.options import Model, PushOptions
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.consumer.stats import Meter
from ariane.client.producer.producer import Producer
from ariane.env import ManualClock
from ariane.message import dead_letter_topic
from tests.client.inbox import OK, Inbox, eventually
from tests.client.test_process_queue import QUEUE, messages

FIRST = ConsumeFrom.FIRST


async def send_in_order(producer: Producer, topic: str, keys: int, each: int) -> None:
    for i in range(each):
        for key in range(keys):
            await producer.send(Message(topic, b"%d:%d" % (key, i)), hash_key=key)


async def test_messages_of_a_queue_come_in_order(ns: str, topic: str, producer: Producer, group: str) -> None:
    await send_in_order(producer, topic, keys=4, each=10)
    inbox = Inbox()
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST, orderly=True):
        got = await inbox.arrived(40)
    for key in range(4):
        mine = [m.body for m in got if m.body.startswith(b"%d:" % key)]
        assert mine == [b"%d:%d" % (key, i) for i in range(10)]


async def test_a_coroutine_listens_in_order_too(ns: str, topic: str, producer: Producer, group: str) -> None:
    await send_in_order(producer, topic, keys=2, each=5)
    got: list[bytes] = []
    done = asyncio.Event()

    async def listen(messages: list[ReceivedMessage]) -> ConsumeStatus:
        await asyncio.sleep(0)
        got.extend(m.body for m in messages)
        if len(got) == 10:
            done.set()
        return OK

    async with aio.PushConsumer(group, topic, listen, name_servers=ns, consume_from=FIRST, orderly=True):
        await asyncio.wait_for(done.wait(), 60)
    assert [body for body in got if body[:1] == b"0"] == [b"0:%d" % i for i in range(5)]


async def test_a_failure_holds_up_its_queue_and_no_other(ns: str, topic: str, producer: Producer, group: str) -> None:
    failures = iter([ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, ConsumeStatus.RECONSUME_LATER, None])

    def answer(message: ReceivedMessage, delivery: Delivery) -> ConsumeStatus | None:
        delivery.suspend = 0.05
        return next(failures, OK) if message.body == b"0:1" else OK

    await send_in_order(producer, topic, keys=2, each=3)
    inbox = Inbox(answer)
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST, orderly=True):
        got = await inbox.arrived(9)
    mine = [(m.body, m.reconsume_times) for m in got if m.body.startswith(b"0:")]
    assert [body for body, _ in mine] == [b"0:0", *[b"0:1"] * 4, b"0:2"]
    assert [m.body for m in got if m.body.startswith(b"1:")] == [b"1:0", b"1:1", b"1:2"]


async def test_tried_often_enough_a_message_is_a_dead_letter_and_the_queue_goes_on(
    ns: str, topic: str, producer: Producer, group: str, admin: Admin
) -> None:
    def answer(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        return ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if message.body == b"0:0" else OK

    await send_in_order(producer, topic, keys=1, each=2)
    inbox = Inbox(answer)
    options = {"orderly": True, "suspend": 0.02, "max_reconsume_times": 2, "name_servers": ns, "consume_from": FIRST}
    async with aio.PushConsumer(group, topic, inbox, **options):
        got = await inbox.arrived(4)

        async def buried() -> bool:
            return dead_letter_topic(group) in await admin.topics()

        await eventually(buried, "a dead letter")
    assert [m.body for m in got] == [b"0:0"] * 3 + [b"0:1"]


async def test_without_auto_commit_the_listener_commits_or_rolls_back(
    ns: str, topic: str, producer: Producer, group: str, admin: Admin
) -> None:
    answers = iter([OK, ConsumeStatus.ROLLBACK, OK, ConsumeStatus.COMMIT])

    def answer(_: ReceivedMessage, delivery: Delivery) -> ConsumeStatus:
        delivery.auto_commit = False
        delivery.suspend = 0.02
        return next(answers, OK)

    [queue, *_] = await producer.queues(topic)
    for i in range(2):
        await producer.send(Message(topic, b"%d" % i), queue=queue)
    inbox = Inbox(answer)
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST, orderly=True):
        got = await inbox.arrived(4)
    assert [m.body for m in got] == [b"0", b"1", b"0", b"1"]
    assert await admin.committed(group, queue) == 2


async def test_a_queue_changes_hands_only_when_its_listener_is_done(
    ns: str, topic: str, producer: Producer, group: str
) -> None:
    """Order holds over a rebalance: the second consumer gets a queue after the first one's call has ended."""
    entered, release = threading.Event(), threading.Event()
    log: list[str] = []

    def hold(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        log.append(f"first begins {message.body.decode()}")
        entered.set()
        release.wait(30)
        log.append(f"first ends {message.body.decode()}")
        return OK

    def note(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        log.append(f"second has {message.body.decode()}")
        return OK

    queue = (await producer.queues(topic))[-1]  # of two members, the second one by name gets the last queues
    for i in range(3):
        await producer.send(Message(topic, b"%d" % i), queue=queue)
    options = {"orderly": True, "name_servers": ns, "consume_from": FIRST, "rebalance_interval": 0.3}
    first, second = Inbox(hold), Inbox(note)
    async with aio.PushConsumer(group, topic, first, **options, instance_name="1") as one:
        await asyncio.to_thread(entered.wait, 30)
        async with aio.PushConsumer(group, topic, second, **options, instance_name="2"):
            release.set()
            await second.arrived(2)
            assert queue not in await one.queues()
    assert log == ["first begins 0", "first ends 0", "second has 1", "second has 2"]


@pytest.mark.parametrize(("wanted", "pause"), [(None, 1.0), (0.0, 0.01), (0.5, 0.5), (3600.0, 30.0)])
def test_a_pause_is_between_a_hundredth_and_thirty_seconds(wanted: float | None, pause: float) -> None:
    service = SimpleNamespace(_options=PushOptions(name_servers="a:1"))
    batch = SimpleNamespace(delivery=SimpleNamespace(suspend=wanted))
    assert Orderly._pause(cast(Any, service), cast(Any, batch)) == pause


async def test_a_queue_taken_again_is_consumed_while_its_former_task_still_pauses() -> None:
    clock, consumed = ManualClock(), asyncio.Queue[Batch]()

    def submit(batch: Batch) -> None:
        batch.started, batch.status = clock.monotonic(), ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        batch.done(batch)
        consumed.put_nowait(batch)

    tasks = Tasks(clock, "test")
    service = Orderly(
        cast(Any, SimpleNamespace(env=SimpleNamespace(clock=clock), tasks=tasks)),
        PushOptions(name_servers="a:1", model=Model.BROADCASTING),
        cast(Any, SimpleNamespace(submit=submit)),
        *cast(Any, (None, None, Meter(clock), None)),
    )
    for _ in range(2):  # a rebalance or a reset releases the queue during the pause, and takes it again
        queue = ProcessQueue(QUEUE, clock)
        service.deliver(queue, queue.put(messages(0)))
        assert (await asyncio.wait_for(consumed.get(), 10)).queue is queue
        queue.drop()
    await tasks.close()
