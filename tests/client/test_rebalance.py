"""Members of a group divide the queues, in one process and with Apache's Java client."""

import asyncio
import threading

import pytest

from ariane import ConsumeFrom, ConsumeStatus, Delivery, Message, ReceivedMessage, aio
from ariane.client.consumer.allocate import by_circle
from ariane.client.consumer.push import PushConsumer
from ariane.client.producer.producer import Producer
from tests.client.inbox import OK, Inbox, eventually
from tests.peers import Driver, Queue, unique
from tests.peers import aio as peer

FIRST = ConsumeFrom.FIRST
QUICK = {"rebalance_interval": 1.0, "route_interval": 1.0}


def ids(queues: list[object], topic: str) -> list[int]:
    return sorted(queue.queue_id for queue in queues if queue.topic == topic)


async def test_members_divide_the_queues_without_gap_or_overlap(ns: str, topic: str, group: str) -> None:
    consumers = [aio.PushConsumer(group, topic, Inbox(), name_servers=ns, **QUICK) for _ in range(3)]

    async def shares() -> list[list[int]]:
        return [ids(await consumer.queues(), topic) for consumer in running]

    running: list[PushConsumer] = []
    for consumer in consumers:
        running.append(await consumer.start())

        async def divided() -> bool:
            found = await shares()
            return sorted(number for share in found for number in share) == [0, 1, 2, 3] and min(
                map(len, found)
            ) >= 4 // len(running)

        await eventually(divided, f"{len(running)} shares")
    await running.pop().close()
    await eventually(divided, "the shares of those that stay")
    for consumer in running:
        await consumer.close()


async def test_nothing_is_lost_when_members_come_and_go(ns: str, topic: str, group: str, producer: Producer) -> None:
    inboxes = [Inbox(), Inbox()]
    options = {"name_servers": ns, "consume_from": FIRST, **QUICK}
    count = 400
    async with aio.PushConsumer(group, topic, inboxes[0], **options):
        sending = asyncio.gather(*(producer.send(Message(topic, b"%d" % i)) for i in range(count // 2)))
        async with aio.PushConsumer(group, topic, inboxes[1], **options):
            await sending
            await asyncio.gather(*(producer.send(Message(topic, b"%d" % i)) for i in range(count // 2, count)))
        await eventually(lambda: len({*inboxes[0].bodies, *inboxes[1].bodies}) == count, "all messages")


async def test_messages_with_a_listener_that_is_too_slow_are_counted_as_risked(
    ns: str, topic: str, group: str, producer: Producer
) -> None:
    release = threading.Event()

    def hold(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        release.wait(30)
        return OK

    for queue in await producer.queues(topic):
        await producer.send(Message(topic, b"x"), queue=queue)
    held = Inbox(hold)
    options = {"name_servers": ns, "consume_from": FIRST, **QUICK}
    async with aio.PushConsumer(group, topic, held, **options) as first:
        await held.arrived(4)
        other = Inbox()
        async with aio.PushConsumer(group, topic, other, **options):
            await other.arrived(2)

            async def counted() -> bool:
                return (await first.stats()).duplicates_risked == 2

            await eventually(counted, "the two messages at risk")
            release.set()


@pytest.mark.parametrize("strategy", ["AllocateMessageQueueAveragely", "AllocateMessageQueueAveragelyByCircle"])
async def test_java_and_python_divide_the_queues(
    ns: str, topic: str, group: str, producer: Producer, java: Driver, strategy: str
) -> None:
    inbox = Inbox()
    options = {"name_servers": ns, "consume_from": FIRST, **QUICK}
    if strategy.endswith("Circle"):
        options["allocate"] = by_circle
    settings = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "allocateMessageQueueStrategy": f"org.apache.rocketmq.client.consumer.rebalance.{strategy}",
    }
    async with (
        await peer(java).push_consumer(ns, topic, group, **settings) as theirs,
        aio.PushConsumer(group, topic, inbox, **options) as mine,
    ):

        async def divided() -> bool:
            ours, java_queues = ids(await mine.queues(), topic), ids(await theirs.queues(), topic)
            return sorted(ours + java_queues) == [0, 1, 2, 3] and len(ours) == len(java_queues) == 2

        await eventually(divided, "two shares")
        for queue in await producer.queues(topic):
            await producer.send(Message(topic, b"%d" % queue.queue_id), queue=queue)
        expected = {b"%d" % number for number in ids(await mine.queues(), topic)}
        await inbox.arrived(2)
        got = {message.body for message in await theirs.await_messages(2)}
        assert set(inbox.bodies) == expected
        assert got == {b"0", b"1", b"2", b"3"} - expected


async def test_java_goes_on_where_python_stopped(
    ns: str, topic: str, group: str, producer: Producer, java: Driver
) -> None:
    inbox = Inbox()
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST):
        for i in range(8):
            await producer.send(Message(topic, b"%d" % i))
        await inbox.arrived(8)
    async with await peer(java).push_consumer(ns, topic, group, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET") as theirs:
        await producer.send(Message(topic, b"new"))
        assert [message.body for message in await theirs.await_messages(1)] == [b"new"]


async def test_python_and_java_answer_checks_for_each_other(ns: str, topic: str, java: Driver, group: str) -> None:
    from tests.client.test_transactions import COMMIT, Ledger

    producers = unique("tx")
    inbox = Inbox()
    ledger = Ledger({}, {b"from java": COMMIT})
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST):
        async with await peer(java).transaction_producer(ns, producers, answers=["UNKNOW"]) as theirs:
            await theirs.send_in_transaction(topic, b"from java", "UNKNOW")
        async with aio.TransactionProducer(producers, ledger, name_servers=ns) as mine:
            await mine.send_in_transaction(Message(topic, b"from python"))
            await inbox.arrived(1)
            assert b"from java" in ledger.asked
        async with await peer(java).transaction_producer(ns, producers, answers=["COMMIT_MESSAGE"]) as theirs:
            await theirs.send_in_transaction(topic, b"hello", "COMMIT_MESSAGE")
            await inbox.arrived(3)
    assert set(inbox.bodies) == {b"from java", b"from python", b"hello"}


async def test_java_replies_to_python_and_python_to_java(
    ns: str, topic: str, java: Driver, producer: Producer, group: str
) -> None:
    from tests.peers import echo

    async with await peer(java).producer(ns) as theirs:
        script = echo(theirs._wrapped)
        settings = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
        async with await peer(java).push_consumer(ns, topic, group, script=script, **settings):
            assert (await producer.request(Message(topic, b"to java"), timeout=20)).body == b"to java"

        async def answer(messages: list[ReceivedMessage]) -> ConsumeStatus:
            for message in messages:
                await producer.reply(message, b"from python")
            return OK

        other = unique("topic")
        async with aio.PushConsumer(unique("group"), other, answer, name_servers=ns, consume_from=FIRST, **QUICK) as c:
            await producer.send(Message(other, b"makes the topic"))

            async def ready() -> bool:
                return bool(ids(await c.queues(), other))

            await eventually(ready, "the new topic")
            assert (await theirs.request(other, b"to python", timeout=20)).body == b"from python"


async def test_java_reads_what_python_wrote_and_the_reverse(
    ns: str, topic: str, java: Driver, producer: Producer, group: str
) -> None:
    sent = await producer.send(Message(topic, b"z" * 9000, tags="A", keys=["k"], properties={"p": "1"}))
    async with await peer(java).push_consumer(ns, topic, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET") as theirs:
        [got] = await theirs.await_messages(1)
    assert (got.body, got.tags, got.keys, got.properties["p"]) == (b"z" * 9000, "A", "k", "1")
    assert (got.msg_id, got.queue) == (sent.message_id, Queue(topic, sent.queue.broker_name, sent.queue.queue_id))
    inbox = Inbox()
    async with await peer(java).producer(ns) as theirs:
        reply = await theirs.send(topic, b"y" * 9000, tags="B", keys=["j"], properties={"q": "2"})
    async with aio.PushConsumer(group, {topic: "B"}, inbox, name_servers=ns, consume_from=FIRST):
        [mine] = await inbox.arrived(1)
    assert (mine.body, mine.tags, mine.keys, mine.properties["q"]) == (b"y" * 9000, "B", ["j"], "2")
    assert mine.message_id == reply.msg_id


async def test_java_and_python_send_equal_keys_to_equal_queues(
    ns: str, topic: str, java: Driver, producer: Producer
) -> None:
    keys = ["order-1", "", "polygenelubricants", "日本", "🙂", "x" * 600]
    mine = [(await producer.send(Message(topic, b"x"), hash_key=key)).queue.queue_id for key in keys]
    async with await peer(java).producer(ns) as theirs:
        assert mine == [(await theirs.send(topic, b"x", hash_key=key)).queue.queue_id for key in keys]
