"""A producer bounds what is on its way: a flood waits in front instead of failing as a whole."""

import asyncio
import threading
from typing import Any

import pytest

from ariane import Message, MessageQueue, Producer, SendResult, aio
from ariane.client.producer.room import Room
from ariane.errors import ArianeError, BrokerRefused, BufferFull, InvalidMessage
from ariane.protocol.codes import RequestCode
from ariane.testing.cluster import Cluster
from tests.client.inbox import eventually
from tests.peers import unique


async def test_room_is_given_in_the_order_of_coming() -> None:
    room = Room(2, 100)
    assert room.take(10)
    assert room.take(80)
    order: list[str] = []

    async def come(name: str, size: int) -> None:
        await room.enter(size)
        order.append(name)

    waiting = [asyncio.ensure_future(come(name, size)) for name, size in (("large", 90), ("small", 1))]
    await asyncio.sleep(0)
    room.leave(10)
    await asyncio.sleep(0)
    assert order == []  # the small one does not overtake
    assert not room.take(1)
    room.leave(80)
    await asyncio.gather(*waiting)
    assert order == ["large", "small"]


async def test_one_who_gives_up_leaves_no_hole() -> None:
    room = Room(1, 100)
    assert room.take(1)
    first = asyncio.ensure_future(room.enter(1))
    second = asyncio.ensure_future(room.enter(1))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    room.leave(1)
    await second
    assert not room.take(1)
    room.leave(1)
    assert room.take(1)


def test_a_waiter_whose_loop_is_closed_keeps_no_room() -> None:
    room = Room(1, 100)
    assert room.take(1)
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(room.enter(1))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    room.leave(1)
    assert room.take(1)
    waiting.get_coro().close()


def test_a_message_larger_than_all_room_goes_alone() -> None:
    room = Room(10, 100)
    assert room.take(1000)
    assert not room.take(1)
    room.leave(1000)
    assert room.take(1)


def test_many_threads_never_hold_more_than_there_is() -> None:
    room = Room(3, 1000)
    inside, most = 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(200):
            room.enter_from_thread(1, wait=True)
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1
            room.leave(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 3
    assert room.take(1)


def test_a_flood_from_a_thread_is_stored_to_the_last_message(ours: Cluster) -> None:
    topic = unique("flood")
    ours.create_topic(topic, queues=4)
    with Producer(unique("p"), name_servers=ours.name_servers, max_in_flight=100) as producer:
        futures = [producer.submit(Message(topic, b"x")) for _ in range(5000)]
        places = {(future.result().queue.queue_id, future.result().queue_offset) for future in futures}
    assert len(places) == 5000


async def test_no_more_than_allowed_are_on_their_way(ours: Cluster) -> None:
    """The broker holds its answers back: only so many requests reach it."""
    topic = unique("held")
    ours.create_topic(topic, queues=1)
    [broker] = ours.brokers.values()
    handler = broker.handlers[RequestCode.SEND_MESSAGE_V2]
    came: list[Any] = []
    open_again = threading.Event()

    async def hold(connection: Any, request: Any) -> Any:
        came.append(request)
        await asyncio.to_thread(open_again.wait)
        return handler(connection, request)

    broker.handlers[RequestCode.SEND_MESSAGE_V2] = hold
    try:
        async with aio.Producer(
            unique("p"), name_servers=ours.name_servers, max_in_flight=5, send_timeout=30
        ) as producer:
            sends = [asyncio.ensure_future(producer.send(Message(topic, b"x"))) for _ in range(20)]
            submits = [producer.submit(Message(topic, b"x")) for _ in range(20)]
            await eventually(lambda: len(came) >= 5, "five requests")
            await asyncio.sleep(0.1)
            assert len(came) == 5
            open_again.set()
            results = await asyncio.gather(*sends, *submits)
            assert len({result.queue_offset for result in results}) == 40
    finally:
        broker.handlers[RequestCode.SEND_MESSAGE_V2] = handler
        open_again.set()


def test_submit_raises_when_told_so(ours: Cluster) -> None:
    topic = unique("full")
    ours.create_topic(topic, queues=1)
    with Producer(unique("p"), name_servers=ours.name_servers, max_in_flight=1, when_full="raise") as producer:
        assert producer._client.room.take(0)
        with pytest.raises(BufferFull, match="max_in_flight"):
            producer.submit(Message(topic, b"x"))
        producer._client.room.leave(0)
        assert producer.submit(Message(topic, b"x")).result().queue_offset == 0
        with pytest.raises(InvalidMessage):
            producer.submit(Message("no name", b"x")).result()
        producer.submit(Message(topic, b"x")).result()  # the failed one left its room


# Batching.


async def test_messages_that_come_together_leave_together(site: Any, topic: str) -> None:
    async with aio.Producer(unique("p"), name_servers=site.name_servers, batching=True, batch_delay=0.2) as producer:
        messages = [Message(topic, str(i).encode(), keys=f"k{i}") for i in range(50)]
        results = await asyncio.gather(*(producer.send(message) for message in messages))
        assert len({(result.queue, result.queue_offset) for result in results}) == 50
        assert len({result.queue for result in results}) == 1  # one request: one queue
        assert [result.queue_offset for result in results] == list(range(50))
        assert len({result.message_id for result in results}) == 50
    async with aio.PullClient(name_servers=site.name_servers) as reader:
        queue = results[0].queue

        async def all_there() -> bool:
            return await reader.max_offset(queue) == 50

        await eventually(all_there, "the batch")
        found = await reader.pull_messages(queue, 0, 64)
        while len(found) < 50:
            found += await reader.pull_messages(queue, len(found), 64)
        assert [(m.body, m.message_id) for m in found] == [
            (str(i).encode(), result.message_id) for i, result in enumerate(results)
        ]


async def test_each_caller_of_a_batch_has_its_own_error(ours: Cluster) -> None:
    topic = unique("mixed")
    ours.create_topic(topic, queues=1)
    async with aio.Producer(unique("p"), name_servers=ours.name_servers, batching=True, batch_delay=0.1) as producer:
        good, delayed, bad = await asyncio.gather(
            producer.send(Message(topic, b"good")),
            producer.send(Message(topic, b"delayed", delay_level=1)),
            producer.send(Message(topic, b"bad", properties={"a": "x\x01y"})),
            return_exceptions=True,
        )
        assert not isinstance(good, BaseException)
        assert not isinstance(delayed, BaseException)
        assert isinstance(bad, InvalidMessage)


async def test_messages_that_wait_for_the_store_and_others_leave_in_two_batches(ours: Cluster) -> None:
    topic = unique("waiting")
    ours.create_topic(topic, queues=4)
    async with aio.Producer(unique("p"), name_servers=ours.name_servers, batching=True, batch_delay=0.1) as producer:
        sends = [producer.send(Message(topic, b"x", wait_store=n % 2 == 0)) for n in range(10)]
        results = await asyncio.gather(*sends)
    [waited] = {result.queue for result in results[::2]}
    [other] = {result.queue for result in results[1::2]}
    assert waited != other  # each batch takes the next queue
    for half in (results[::2], results[1::2]):
        assert [result.queue_offset for result in half] == list(range(5))


async def test_a_refused_batch_is_refused_to_each(ours: Cluster) -> None:
    topic = unique("readonly")
    ours.create_topic(topic, queues=1, perm=4)
    async with aio.Producer(unique("p"), name_servers=ours.name_servers, batching=True, retries=0) as producer:
        queue = _queue(ours, topic)
        found = await asyncio.gather(
            *(producer.send(Message(topic, b"x"), queue=queue) for _ in range(3)), return_exceptions=True
        )
        assert all(isinstance(error, BrokerRefused) for error in found), found


async def test_ordered_keys_stay_ordered_in_batches(ours: Cluster) -> None:
    topic = unique("ordered")
    ours.create_topic(topic, queues=4)
    options: dict[str, Any] = {"batching": True, "batch_bytes": 2048, "batch_delay": 0.001}
    async with aio.Producer(unique("p"), name_servers=ours.name_servers, **options) as producer:
        sends = [
            producer.send(Message(topic, f"{key}-{step}".encode()), hash_key=key) for step in range(60) for key in "abc"
        ]
        results = await asyncio.gather(*sends)
        for at, key in enumerate("abc"):
            offsets = [result.queue_offset for result in results[at::3]]
            assert offsets == sorted(offsets), key
            assert len({result.queue for result in results[at::3]}) == 1


@pytest.mark.parametrize("in_flight", [1, 100])
async def test_a_close_answers_every_caller_of_a_batch(ours: Cluster, in_flight: int) -> None:
    """Also those who waited for room, and find a producer that is closed."""
    topic = unique("closing")
    ours.create_topic(topic, queues=1)
    options: dict[str, Any] = {"batching": True, "batch_delay": 0.05, "max_in_flight": in_flight}
    producer = aio.Producer(unique("p"), name_servers=ours.name_servers, **options)
    await producer.start()
    sends = [asyncio.create_task(producer.send(Message(topic, str(i).encode()))) for i in range(10)]
    await asyncio.sleep(0)
    await producer.close()
    async with asyncio.timeout(60):
        found = await asyncio.gather(*sends, return_exceptions=True)
    assert all(isinstance(result, (SendResult, ArianeError)) for result in found), found


def _queue(cluster: Cluster, topic: str) -> Any:
    [name] = cluster.brokers
    return MessageQueue(topic, name, 0)
