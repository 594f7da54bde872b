"""Our own clients beside a pair: they read from slaves when that is suggested or needed, and go back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane import ConsumeFrom, ConsumeStatus, Delivery, Message, MessageQueue, ReceivedMessage, aio
from ariane.errors import ArianeError
from ariane.protocol.codes import RequestCode
from ariane.protocol.units import decode_units
from ariane.spark.topic.options import TopicOptions
from ariane.spark.topic.pull_range import QueueSlice, SlicePuller
from tests.client.inbox import OK, Inbox, eventually
from tests.replication.brokers import Brokers, copied, ok, until

SOON = {"route_interval": 0.2, "heartbeat_interval": 1.0}


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with Brokers.in_folder(tmp_path) as running:
        yield running


@pytest.mark.slow
async def test_a_consumer_goes_on_at_the_slave_and_returns_to_the_master(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    names, inbox = brokers.name_server.address, Inbox()
    async with aio.Producer("senders", name_servers=names, **SOON) as producer:
        for number in range(20):
            await producer.send(Message("orders", b"%d" % number))
        await copied(master, slave)
        await slave.metadata.round(master.address)
        await brokers.stop("master")
        async with aio.PushConsumer(
            "readers", "orders", inbox, name_servers=names, consume_from=ConsumeFrom.FIRST, **SOON
        ):
            await inbox.arrived(20)
            await until(lambda: slave.offsets.committed_here, "commits on the slave")
            await brokers.master()
            await eventually(lambda: _sent(producer, b"after"), "the master's return to the routes")
            await inbox.arrived(21)
    assert sorted(inbox.bodies) == sorted([*(b"%d" % number for number in range(20)), b"after"])


async def test_a_running_consumer_reads_the_rest_from_the_slave_when_the_master_dies(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    names = brokers.name_server.address
    gate = threading.Event()

    def hold(message: ReceivedMessage, _: Delivery) -> ConsumeStatus:
        if message.body == b"0":
            gate.wait(60)
        return OK

    inbox = Inbox(hold)
    bodies = [b"%d" % number for number in range(200)]
    async with aio.Producer("senders", name_servers=names, **SOON) as producer:
        queue = (await producer.send(Message("orders", bodies[0]))).queue
        async with aio.PushConsumer(
            "readers",
            "orders",
            inbox,
            name_servers=names,
            consume_from=ConsumeFrom.FIRST,
            max_cached_messages=10,
            **SOON,
        ):
            await inbox.arrived(1)
            for body in bodies[1:]:
                await producer.send(Message("orders", body), queue=queue)
            await copied(master, slave)
            await slave.metadata.round(master.address)
            await brokers.stop("master")  # its consumer has a part of the messages, and needs the rest
            gate.set()
            await inbox.arrived(200)
            await brokers.master()
            await eventually(lambda: _sent(producer, b"after"), "the master's return to the routes")
            await inbox.arrived(201)
    assert set(inbox.bodies) == {*bodies, b"after"}


async def test_spark_reads_the_rest_of_a_slice_where_the_master_suggests(brokers: Brokers) -> None:
    master = await brokers.master(slaveReadEnable=True)
    slave = await brokers.slave(slaveReadEnable=True)
    group = b'{"groupName":"readers","brokerId":1,"whichBrokerWhenConsumeSlowly":1}'
    to_master = brokers.talk(master)
    ok(await to_master.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group))
    for number in range(40):
        await to_master.send_ok("orders", b"%d" % number)
    await copied(master, slave)
    await slave.metadata.round(master.address)
    for number in range(40, 50):
        await to_master.send_ok("orders", b"%d" % number)  # the slave may lack these: the master has them
    settings = {"nameServer": brokers.name_server.address, "topic": "orders", "group": "readers", "pullBatchSize": "8"}
    options = TopicOptions.parse(settings, streaming=False)
    part = QueueSlice(MessageQueue("orders", "pair", 0), 0, 50, (master.address, slave.address))
    puller = SlicePuller(part, options, lambda: part.addresses)
    bodies = await asyncio.to_thread(lambda: [unit.body for data in puller.bodies() for unit in decode_units(data)])
    assert bodies == [b"%d" % number for number in range(50)]
    key = "orders@readers"
    assert master.stats.snapshot().totals["GROUP_GET_NUMS"][key][0] >= 8
    assert slave.stats.snapshot().totals["GROUP_GET_NUMS"][key][0] >= 32


async def _sent(producer: aio.Producer, body: bytes) -> bool:
    try:
        await producer.send(Message("orders", body))
    except ArianeError:
        return False
    return True


async def test_a_pull_follows_the_suggestion_and_comes_back(brokers: Brokers) -> None:
    master = await brokers.master(slaveReadEnable=True)
    slave = await brokers.slave(slaveReadEnable=True)
    names = brokers.name_server.address
    group = b'{"groupName":"readers","brokerId":1,"whichBrokerWhenConsumeSlowly":1}'
    to_master = brokers.talk(master)
    ok(await to_master.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group))
    await to_master.send_ok("orders", b"one")
    await copied(master, slave)
    await slave.metadata.round(master.address)
    queue = MessageQueue("orders", "pair", 0)
    async with aio.PullClient("readers", name_servers=names, **SOON) as client:
        first = await client.pull(queue, 0)
        assert first.suggested_broker == 1
        await client.pull(queue, 0)
        assert slave.stats.snapshot().totals["GROUP_GET_NUMS"]["orders@readers"][0] == 1
        await brokers.stop("slave")
        await eventually(lambda: _pulled(client, queue), "a pull at the master after the slave is gone")


async def _pulled(client: aio.PullClient, queue: MessageQueue) -> bool:
    try:
        return bool(await client.pull_messages(queue, 0))
    except ArianeError:
        return False
