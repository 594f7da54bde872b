"""The asyncio clients under uvloop, and under a loop that comes and goes."""

import asyncio

import pytest

from ariane import ConsumeFrom, Message, ReceivedMessage, aio
from ariane.testing.cluster import Cluster
from tests.peers import unique

uvloop = pytest.importorskip("uvloop")


async def send_and_receive(name_servers: str) -> list[bytes]:
    topic = unique("topic")
    got: list[bytes] = []
    async with aio.Admin(name_servers=name_servers) as admin:
        await admin.create_topic(topic, queues=2)
    async with (
        aio.Producer(unique("p"), name_servers=name_servers) as producer,
        aio.PushConsumer(unique("g"), topic, name_servers=name_servers, consume_from=ConsumeFrom.FIRST) as consumer,
    ):
        await asyncio.gather(*(producer.submit(Message(topic, b"%d" % i)) for i in range(10)))
        message: ReceivedMessage
        async for message in consumer:
            got.append(message.body)
            if len(got) == 10:
                break
    return got


@pytest.mark.parametrize("factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_clients_run_under_either_loop_and_leave_nothing_behind(ours: Cluster, factory: object) -> None:
    with asyncio.Runner(loop_factory=factory, debug=False) as runner:
        got = runner.run(send_and_receive(ours.name_servers))
        left = asyncio.all_tasks(runner.get_loop())
    assert sorted(got) == sorted(b"%d" % i for i in range(10))
    assert not left


def test_one_process_may_run_one_loop_after_the_other(ours: Cluster) -> None:
    for _ in range(3):
        assert len(asyncio.run(send_and_receive(ours.name_servers))) == 10
