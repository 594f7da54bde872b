"""Messages with a delivery time: sent, kept, cancelled."""

import time

import pytest

from ariane import Message, aio
from ariane.errors import BrokerRefused, InvalidMessage
from ariane.testing.cluster import Cluster
from tests.client.inbox import eventually
from tests.peers import unique


async def test_a_message_comes_at_its_time_unless_it_is_cancelled(ours: Cluster) -> None:
    topic = unique("timed")
    ours.create_topic(topic, queues=1)
    due = int(time.time() * 1000) + 1500
    async with (
        aio.Producer(unique("p"), name_servers=ours.name_servers) as producer,
        aio.PullClient(name_servers=ours.name_servers) as reader,
    ):
        kept = Message(topic, b"kept", deliver_at=due)
        dropped = Message(topic, b"dropped", deliver_at=due)
        await producer.send(kept)
        await producer.cancel(dropped, await producer.send(dropped))
        [queue] = await reader.queues(topic)
        assert await reader.max_offset(queue) == 0
        async with aio.Admin(name_servers=ours.name_servers) as admin:
            waiting = await admin.pending_timers((await admin.brokers())[0].address)
        assert waiting.pending >= 1
        assert waiting.pending == waiting.minute + waiting.hour + waiting.day + waiting.later
        await eventually(lambda: reader.max_offset(queue), "the message")
        [message] = await reader.pull_messages(queue, 0, 32)
        assert message.body == b"kept"
        assert message.store_time >= due
        with pytest.raises(BrokerRefused, match="due already"):
            await producer.cancel(kept, await producer.send(kept))
        with pytest.raises(ValueError, match="only one"):
            Message(topic, b"x", deliver_at=due, delay_level=1)
        with pytest.raises(InvalidMessage, match="deliver_at"):
            await producer.cancel(Message(topic, b"x"), await producer.send(Message(topic, b"x")))
