"""The lite pull consumer, against our broker and Apache's."""

from functools import partial

import pytest

from ariane import ConsumeFrom, Message, MessageQueue, ReceivedMessage, aio
from ariane.client.admin import Admin
from ariane.client.consumer.lite_pull import LitePullConsumer
from ariane.client.producer.producer import Producer
from ariane.errors import ClientError
from tests.client.inbox import eventually
from tests.peers import unique

FIRST = ConsumeFrom.FIRST


async def polled(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    """So many messages, or what came until a poll stayed empty."""
    got: list[ReceivedMessage] = []
    while len(got) < count:
        messages = await consumer.poll(10)
        if not messages:
            break
        got += messages
    return got


async def filled(producer: Producer, topic: str, count: int) -> None:
    for i in range(count):
        await producer.send(Message(topic, b"%d" % i, tags="AB"[i % 2]))


async def has(admin: Admin, queue: MessageQueue, count: int) -> bool:
    """Whether so many messages are in a queue: Apache's broker brings them there a little after a send."""
    return await admin.max_offset(queue) == count


async def test_polling_a_subscribed_topic_gives_all_of_it(ns: str, topic: str, producer: Producer, group: str) -> None:
    await filled(producer, topic, 20)
    async with aio.LitePullConsumer(group, topic, name_servers=ns, consume_from=FIRST) as consumer:
        got = await polled(consumer, 20)
        assert sorted(int(m.body) for m in got) == list(range(20))
        assert await consumer.poll(0.05) == []
        assert [q for q in await consumer.assignment() if q.topic == topic] == await consumer.queues(topic)


async def test_tags_select(ns: str, topic: str, producer: Producer, group: str) -> None:
    await filled(producer, topic, 10)
    async with aio.LitePullConsumer(group, {topic: "A"}, name_servers=ns, consume_from=FIRST) as consumer:
        assert {m.tags for m in await polled(consumer, 5)} == {"A"}


async def test_assigned_queues_are_read_whoever_else_does(ns: str, topic: str, producer: Producer, group: str) -> None:
    await filled(producer, topic, 8)
    [one, two, *_] = await producer.queues(topic)
    async with aio.LitePullConsumer(group, name_servers=ns, consume_from=FIRST) as consumer:
        await consumer.assign([one, two])
        assert {m.queue for m in await polled(consumer, 4)} == {one, two}
        await consumer.assign([two])
        assert await consumer.assignment() == [two]
        with pytest.raises(ClientError, match="make another consumer"):
            await consumer.subscribe(topic)


async def test_seeking_goes_anywhere_that_exists(
    ns: str, topic: str, producer: Producer, group: str, admin: Admin
) -> None:
    [queue, other, *_] = await producer.queues(topic)
    await producer.send_batch([Message(topic, b"%d" % i) for i in range(6)], queue=queue)
    await eventually(partial(has, admin, queue, 6), "six messages in the queue")
    async with aio.LitePullConsumer(group, name_servers=ns, consume_from=FIRST) as consumer:
        await consumer.assign([queue])
        assert len(await polled(consumer, 6)) == 6
        await consumer.seek(queue, 4)
        assert [m.body for m in await polled(consumer, 2)] == [b"4", b"5"]
        await consumer.seek_to_begin(queue)
        assert (await polled(consumer, 6))[0].body == b"0"
        await consumer.seek_to_end(queue)
        assert await consumer.poll(0.05) == []
        with pytest.raises(ClientError, match="from 0 to 6"):
            await consumer.seek(queue, 7)
        with pytest.raises(ClientError, match="not assigned"):
            await consumer.seek(other, 0)
        assert await consumer.offset_for_time(queue, 0) == 0


async def test_offsets_are_committed_by_hand_or_by_themselves(
    ns: str, topic: str, producer: Producer, group: str, admin: Admin
) -> None:
    [queue, *_] = await producer.queues(topic)
    await producer.send_batch([Message(topic, b"%d" % i) for i in range(6)], queue=queue)
    await eventually(partial(has, admin, queue, 6), "six messages in the queue")
    manual = aio.LitePullConsumer(group, name_servers=ns, consume_from=FIRST, auto_commit=False, pull_batch=2)
    async with manual as consumer:
        await consumer.assign([queue])
        await polled(consumer, 2)
        await consumer.commit()
        assert await consumer.committed(queue) == 2
        await polled(consumer, 4)
        await consumer.commit({queue: 3})
    assert await admin.committed(group, queue) == 3
    async with aio.LitePullConsumer(group, name_servers=ns) as consumer:
        await consumer.assign([queue])
        assert [m.body for m in await polled(consumer, 3)] == [b"3", b"4", b"5"]
    assert await admin.committed(group, queue) == 6


async def test_a_paused_queue_waits(ns: str, topic: str, producer: Producer, group: str) -> None:
    [queue, *_] = await producer.queues(topic)
    async with aio.LitePullConsumer(group, name_servers=ns, consume_from=FIRST) as consumer:
        await consumer.assign([queue])
        await consumer.pause([queue])
        await producer.send(Message(topic, b"x"), queue=queue)
        assert await consumer.poll(0.1) == []
        await consumer.resume([queue])
        assert [m.body for m in await consumer.poll(10)] == [b"x"]


async def test_iterating_goes_on_until_closed(ns: str, topic: str, producer: Producer, group: str) -> None:
    await filled(producer, topic, 10)
    seen: list[bytes] = []
    async with aio.LitePullConsumer(group, topic, name_servers=ns, consume_from=FIRST) as consumer:
        async for message in consumer:
            seen.append(message.body)
            if len(seen) == 10:
                break
    assert sorted(seen) == sorted(b"%d" % i for i in range(10))


async def test_listeners_of_queues_hear_of_changes(ns: str, topic: str, group: str, admin: Admin) -> None:
    heard: list[tuple[str, int, int]] = []
    consumer = aio.LitePullConsumer(
        group,
        topic,
        name_servers=ns,
        queue_listener=lambda name, before, now: heard.append((name, len(before), len(now))),
    )
    async with consumer:
        other = unique("other")
        await admin.create_topic(other, queues=2)
        await consumer.subscribe(other)
        await consumer.unsubscribe(other)
        assert other not in {queue.topic for queue in await consumer.assignment()}
    assert heard == [(topic, 0, 4), (other, 0, 2)]
