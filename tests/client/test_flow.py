"""Flow control: a slow listener stops the pulls of its queue, by count, size and span."""

import asyncio
import threading

import pytest

from ariane import ConsumeFrom, ConsumeStatus, Delivery, Message, ReceivedMessage, aio
from ariane.client.consumer.queues.process_queue import PULL_IDLE
from ariane.client.consumer.queues.puller import Limits, Puller
from ariane.client.consumer.stats import Meter
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.testing.cluster import Cluster
from tests.client.inbox import OK, Inbox, eventually
from tests.client.test_process_queue import QUEUE as NAME
from tests.client.test_process_queue import ManualClock, ProcessQueue, messages
from tests.peers import unique


@pytest.mark.parametrize(
    ("offsets", "size", "room"),
    [(range(10), 10, True), (range(11), 10, False), (range(6), 200, False), ([0, 50], 1, True), ([0, 51], 1, False)],
)
async def test_room_is_limited_by_count_size_and_span(offsets: range, size: int, room: bool) -> None:
    queue = ProcessQueue(NAME, ManualClock())
    queue.put(messages(*offsets, size=size))
    puller = Puller.__new__(Puller)
    puller._limits = Limits(messages=10, size=1000, span=50)
    assert puller.has_room(queue) is room


@pytest.mark.parametrize("paused", [True, False])
async def test_a_queue_that_is_held_back_is_not_stuck(paused: bool) -> None:
    clock = ManualClock()
    queue = ProcessQueue(NAME, clock)
    puller = Puller.__new__(Puller)
    puller._limits = Limits(messages=10, size=1000, span=None)
    puller._meter = Meter(clock)
    puller.subscription = lambda topic: None
    puller._clock = clock
    puller.going = asyncio.Event()
    if not paused:
        puller.going.set()
        queue.put(messages(*range(11)))
    pull = asyncio.create_task(puller.pull_once(queue))
    await asyncio.sleep(0)
    clock.advance(PULL_IDLE + 1)
    assert not queue.is_stuck()  # it would be taken again, with all that its listener has not finished
    pull.cancel()
    await asyncio.gather(pull, return_exceptions=True)
    assert queue.is_stuck()


async def test_a_slow_listener_stops_the_pulls_until_it_catches_up(ours: Cluster) -> None:
    topic, ns = unique("topic"), ours.name_servers
    ours.create_topic(topic, queues=1)
    release = threading.Event()

    def hold(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        release.wait(30)
        return OK

    async with aio.Producer(unique("p"), name_servers=ns) as producer:
        await producer.send_batch([Message(topic, b"%d" % i) for i in range(200)])
    inbox = Inbox(hold)
    options = {"name_servers": ns, "consume_from": ConsumeFrom.FIRST, "max_cached_messages": 50, "threads": 4}
    async with aio.PushConsumer(unique("g"), topic, inbox, **options) as consumer:

        async def stopped() -> bool:
            return (await consumer.stats()).flow_controls > 0

        await eventually(stopped, "flow control")
        stats = await consumer.stats()
        assert 50 < stats.backlog <= 50 + 32
        assert stats.lag == 200
        release.set()
        await inbox.arrived(200)


class PullCounter:
    """Counts the pulls of a consumer that are on their way together."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._open = 0
        self.most = 0

    def before_request(self, _: str, command: Command) -> None:
        if command.code == RequestCode.PULL_MESSAGE and command.fields["topic"] == self._topic:
            self._open += 1
            self.most = max(self.most, self._open)

    def after_response(self, _: str, request: Command, response: Command) -> None:
        if request.code == RequestCode.PULL_MESSAGE and request.fields["topic"] == self._topic:
            self._open -= 1


@pytest.mark.parametrize(("most_cached", "together"), [(1000, 31), (100, 3), (32, 1)])
async def test_a_consumer_that_is_behind_pulls_ahead_within_its_limit(
    ours: Cluster, most_cached: int, together: int
) -> None:
    topic, ns, count = unique("topic"), ours.name_servers, 3000
    ours.create_topic(topic, queues=1)
    async with aio.Producer(unique("p"), name_servers=ns) as producer:
        await producer.send_batch([Message(topic, b"%d" % i) for i in range(count)])
    pulls, got, all_came = PullCounter(topic), [], asyncio.Event()

    async def listen(messages: list[ReceivedMessage]) -> ConsumeStatus:
        got.extend(message.queue_offset for message in messages)
        if len(got) == count:
            all_came.set()
        return OK

    options = {"name_servers": ns, "consume_from": ConsumeFrom.FIRST, "max_cached_messages": most_cached}
    group = unique("g")
    async with aio.PushConsumer(group, topic, listen, consume_batch=32, threads=1, rpc_hooks=[pulls], **options):
        async with asyncio.timeout(60):
            await all_came.wait()
    assert got == list(range(count))
    assert (pulls.most > 1) is (together > 1)
    assert pulls.most <= together


async def test_a_limit_for_the_topic_is_shared_by_its_queues(ours: Cluster) -> None:
    topic, ns = unique("topic"), ours.name_servers
    ours.create_topic(topic, queues=3)
    options = {"name_servers": ns, "max_cached_messages_of_topic": 100, "max_cached_bytes_of_topic": 1000}
    async with aio.PushConsumer(unique("g"), topic, Inbox(), **options) as consumer:
        held = len(await consumer.queues())
        limits = consumer._engine._limits
        assert (limits.messages, limits.size) == (100 // held, 1000 // held)
