"""Concurrent consuming, against our broker and Apache's."""

import asyncio
import threading
from pathlib import Path

import pytest

from ariane import (
    ConsumeFrom,
    ConsumeStatus,
    Delivery,
    Expression,
    Message,
    Model,
    PythonFilter,
    ReceivedMessage,
    Sql,
    aio,
)
from ariane.client.admin import Admin
from ariane.client.producer.producer import Producer
from ariane.errors import BrokerRefused
from ariane.message import dead_letter_topic
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from tests.client.inbox import OK, Inbox, eventually
from tests.peers import unique

FIRST = ConsumeFrom.FIRST


def offset_files(folder: Path, group: str) -> list[Path]:
    return sorted(folder.glob(f"*/{group}/offsets.json"))


async def test_every_message_reaches_a_listener_function(ns: str, topic: str, producer: Producer, group: str) -> None:
    inbox = Inbox()
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST) as consumer:
        for i in range(50):
            await producer.send(Message(topic, b"%d" % i, tags="T"))
        got = await inbox.arrived(50)
        assert sorted(await consumer.queues())[-4:] == sorted(await producer.queues(topic))
    assert sorted(int(message.body) for message in got) == list(range(50))
    assert {message.tags for message in got} == {"T"}


async def test_a_coroutine_listens_too(ns: str, topic: str, producer: Producer, group: str) -> None:
    got: list[bytes] = []
    done = asyncio.Event()

    async def listen(messages: list[ReceivedMessage]) -> ConsumeStatus:
        await asyncio.sleep(0)
        got.extend(message.body for message in messages)
        if len(got) == 20:
            done.set()
        return OK

    async with aio.PushConsumer(group, topic, listen, name_servers=ns, consume_from=FIRST):
        for i in range(20):
            await producer.send(Message(topic, b"%d" % i))
        await asyncio.wait_for(done.wait(), 60)
    assert sorted(got) == sorted(b"%d" % i for i in range(20))


async def test_iterating_acknowledges_what_was_finished(ns: str, topic: str, producer: Producer, group: str) -> None:
    for i in range(5):
        await producer.send(Message(topic, b"%d" % i))
    seen: set[bytes] = set()
    async with aio.PushConsumer(group, topic, name_servers=ns, consume_from=FIRST) as consumer:
        async for message in consumer:
            seen.add(message.body)
            if len(seen) == 5:
                await consumer.close()
    assert seen == {b"%d" % i for i in range(5)}
    again: list[bytes] = []
    async with aio.PushConsumer(group, topic, name_servers=ns) as consumer:
        async for message in consumer:  # the last one was not finished: its loop never asked for the next
            again.append(message.body)
            break
    assert len(again) == 1


async def test_failures_come_again_and_the_listener_hears_how_often(
    ns: str, topic: str, producer: Producer, group: str
) -> None:
    def answer(message: ReceivedMessage, _: Delivery) -> ConsumeStatus | None:
        if message.reconsume_times == 0:
            return ConsumeStatus.RECONSUME_LATER
        if message.reconsume_times == 1:
            return None
        if message.reconsume_times == 2:
            raise ValueError("on purpose")
        return OK

    inbox = Inbox(answer)
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST) as consumer:
        sent = await producer.send(Message(topic, b"stubborn"))
        got = await inbox.arrived(4)
        stats = await consumer.stats()
    assert [message.reconsume_times for message in got] == [0, 1, 2, 3]
    assert {message.message_id for message in got} == {sent.message_id}
    assert {message.topic for message in got} == {topic}
    assert sum(of.failed for of in stats.topics.values()) == 3


async def test_what_fails_too_often_becomes_a_dead_letter(
    ns: str, topic: str, producer: Producer, group: str, admin: Admin
) -> None:
    inbox = Inbox(lambda message, _: ConsumeStatus.RECONSUME_LATER)
    options = {"name_servers": ns, "consume_from": FIRST, "max_reconsume_times": 1}
    async with aio.PushConsumer(group, topic, inbox, **options):
        await producer.send(Message(topic, b"hopeless"))
        await inbox.arrived(2)

        async def buried() -> bool:
            if dead_letter_topic(group) not in await admin.topics():
                return False
            table = (await admin.topic_stats(dead_letter_topic(group))).offset_table
            return sum(offsets.max_offset for offsets in table.values()) == 1

        await eventually(buried, "a dead letter")


async def test_a_part_of_a_batch_can_fail(ns: str, topic: str, producer: Producer, group: str) -> None:
    def answer(message: ReceivedMessage, delivery: Delivery) -> ConsumeStatus:
        delivery.ack_index = 1
        return OK

    [queue, *_] = await producer.queues(topic)
    await producer.send_batch([Message(topic, b"%d" % i) for i in range(4)], queue=queue)
    inbox = Inbox(answer)
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST, consume_batch=4):
        got = await inbox.arrived(6)
    assert {message.body for message in got[4:]} == {b"2", b"3"}


async def test_an_unfinished_message_holds_the_offset_back(
    ns: str, topic: str, producer: Producer, group: str, admin: Admin
) -> None:
    release = threading.Event()

    def answer(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        if message.body == b"2":
            release.wait(30)
        return OK

    [queue, *_] = await producer.queues(topic)
    for i in range(6):
        await producer.send(Message(topic, b"%d" % i), queue=queue)
    inbox = Inbox(answer)
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST) as consumer:
        await inbox.arrived(6)
        await consumer.commit()
        held = await admin.committed(group, queue)
        release.set()

        async def all_committed() -> bool:
            await consumer.commit()
            return await admin.committed(group, queue) == 6

        await eventually(all_committed, "the offset to go on")
    assert held is not None
    assert held <= 2


async def test_closing_stores_the_offsets(ns: str, topic: str, producer: Producer, group: str, admin: Admin) -> None:
    inbox = Inbox()
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST):
        for i in range(12):
            await producer.send(Message(topic, b"%d" % i))
        await inbox.arrived(12)
    committed = [await admin.committed(group, queue) or 0 for queue in await producer.queues(topic)]
    assert sum(committed) == 12
    assert await admin.lag(group, topic) == 0


async def test_tags_and_sql_select(ns: str, topic: str, producer: Producer) -> None:
    for i in range(6):
        await producer.send(Message(topic, b"%d" % i, tags="ABC"[i % 3], properties={"n": str(i)}))
    by_tag, by_sql = Inbox(), Inbox()
    options = {"name_servers": ns, "consume_from": FIRST}
    tags = aio.PushConsumer(unique("tags"), {topic: "A || C"}, by_tag, **options)
    sql = aio.PushConsumer(unique("sql"), {topic: Sql("n > 3 AND TAGS = 'B'")}, by_sql, **options)
    async with tags, sql:
        assert {m.body for m in await by_tag.arrived(4)} == {b"0", b"2", b"3", b"5"}
        assert {m.body for m in await by_sql.arrived(1)} == {b"4"}


@pytest.mark.parametrize("site", ["ariane"], indirect=True)
async def test_expressions_over_the_body_select(ns: str, topic: str, producer: Producer) -> None:
    for i in range(6):
        await producer.send(Message(topic, b'{"n": %d}' % i, properties={"even": str(i % 2 == 0).lower()}))
    wanted = {"text": Expression("body.n > 1 AND even = TRUE"), "python": PythonFilter('body["n"] < 2')}
    inboxes = {name: Inbox() for name in wanted}
    options = {"name_servers": ns, "consume_from": FIRST}
    text, python = (aio.PushConsumer(unique(n), {topic: one}, inboxes[n], **options) for n, one in wanted.items())
    async with text, python:
        assert {m.body for m in await inboxes["text"].arrived(2)} == {b'{"n": 2}', b'{"n": 4}'}
        assert {m.body for m in await inboxes["python"].arrived(2)} == {b'{"n": 0}', b'{"n": 1}'}


@pytest.mark.parametrize("site", ["apache"], indirect=True)
async def test_apaches_broker_refuses_an_expression_over_the_body(ns: str, topic: str, group: str) -> None:
    with pytest.raises(BrokerRefused, match="SUBSCRIPTION_PARSE_FAILED"):
        await aio.PushConsumer(group, {topic: Expression("body.n > 1")}, Inbox(), name_servers=ns).start()


async def test_a_wrong_expression_is_an_error_at_the_start(ns: str, topic: str, group: str) -> None:
    with pytest.raises(BrokerRefused, match="SUBSCRIPTION_PARSE_FAILED"):
        await aio.PushConsumer(group, {topic: Sql("a >>> b")}, Inbox(), name_servers=ns).start()


class Pulls:
    """Counts pulls."""

    def __init__(self) -> None:
        self.sent = 0

    def before_request(self, peer: str, command: Command) -> None:
        self.sent += command.code == RequestCode.PULL_MESSAGE

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """Answers do not matter."""


async def test_a_paused_consumer_gets_nothing_until_it_resumes(
    ns: str, topic: str, producer: Producer, group: str
) -> None:
    inbox, pulls = Inbox(), Pulls()
    options = {"name_servers": ns, "consume_from": FIRST, "rpc_hooks": [pulls]}
    async with aio.PushConsumer(group, topic, inbox, **options) as consumer:
        await consumer.pause()
        before = pulls.sent
        for i in range(4):
            await producer.send(Message(topic, b"%d" % i))
        assert (pulls.sent, inbox.bodies) == (before, [])
        await consumer.resume()
        await inbox.arrived(4)


async def test_broadcasting_gives_all_messages_to_all_and_keeps_offsets_in_a_file(
    ns: str, topic: str, producer: Producer, group: str, tmp_path: Path
) -> None:
    inboxes = [Inbox(), Inbox()]
    options = {"name_servers": ns, "consume_from": FIRST, "model": Model.BROADCASTING, "offset_folder": tmp_path}
    names = [unique("instance") for _ in inboxes]
    for i in range(8):
        await producer.send(Message(topic, b"%d" % i))
    for inbox, name in zip(inboxes, names, strict=True):
        async with aio.PushConsumer(group, topic, inbox, **options, instance_name=name):
            await inbox.arrived(8)
    files = offset_files(tmp_path, group)
    assert len(files) == 2
    assert b'"offsetTable":{{"brokerName":' in files[0].read_bytes()
    again = Inbox()
    async with aio.PushConsumer(group, topic, again, **options, instance_name=names[0]):
        await producer.send(Message(topic, b"new"))
        assert [message.body for message in await again.arrived(1)] == [b"new"]


async def test_a_message_held_too_long_is_sent_back(ns: str, topic: str, producer: Producer, group: str) -> None:
    release = threading.Event()

    def answer(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        if message.reconsume_times == 0:
            release.wait(30)
        return OK

    inbox = Inbox(answer)
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST, consume_timeout=0.3):
        await producer.send(Message(topic, b"slow"))
        first, second, *_ = await inbox.arrived(2)  # a second one that is slow too would come a third time
        release.set()
    assert (first.reconsume_times, second.reconsume_times) == (0, 1)


async def test_topics_can_be_subscribed_and_given_up_while_running(
    ns: str, topic: str, producer: Producer, group: str, admin: Admin
) -> None:
    other = unique("other")
    await admin.create_topic(other, queues=2)
    inbox = Inbox()
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST) as consumer:
        with pytest.raises(ValueError, match="not both"):
            await consumer.subscribe(other, "A", filter="B")
        await consumer.subscribe(other, filter="wanted")
        await producer.send_batch([Message(other, tag.encode(), tags=tag) for tag in ("unwanted", "wanted")])
        assert [message.tags for message in await inbox.arrived(1)] == ["wanted"]
        await consumer.unsubscribe(other)
        assert other not in {queue.topic for queue in await consumer.queues()}


async def test_the_figures_tell_times_lag_and_a_number_of_threads(
    ns: str, topic: str, producer: Producer, group: str
) -> None:
    gate = threading.Event()

    def answer(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        gate.wait(0.02)
        return OK

    inbox = Inbox(answer)
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST) as consumer:
        for i in range(8):
            await producer.send(Message(topic, b"%d" % i))
        await inbox.arrived(8)

        async def counted() -> bool:
            stats = await consumer.stats()
            return topic in stats.topics and stats.topics[topic].succeeded == 8

        await eventually(counted, "the figures")
        stats = await consumer.stats()
    assert stats.cpu_seconds is not None
    assert stats.wait_seconds is not None
    assert stats.wait_seconds > stats.cpu_seconds
    assert stats.suggested_threads is not None
    assert stats.suggested_threads > 1
    assert (stats.lag, stats.backlog) == (0, 0)
