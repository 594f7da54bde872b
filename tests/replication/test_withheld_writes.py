"""A SYNC_MASTER that restarts is offered to producers when its slave follows again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane.protocol.bodies import TopicRouteData
from ariane.protocol.bodies.topics import READ, WRITE
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from tests.broker.talk import PATIENCE
from tests.replication.brokers import Brokers, ok, until

TOPIC = "orders"


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with Brokers.in_folder(tmp_path) as running:
        yield running


async def permission(brokers: Brokers) -> int:
    """What the name server tells producers of the topic; 0 when it does not know it."""
    [broker] = [one for name, one in brokers.running.items() if name == "master"]
    command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
    response = await brokers.talk(broker).client.request(brokers.name_server.address, command, PATIENCE)
    return TopicRouteData.decode(response.body).queue_datas[0].perm if response.code == 0 else 0


async def offered(brokers: Brokers) -> None:
    """Return when producers are told that they may send."""
    async with asyncio.timeout(PATIENCE):
        found = await permission(brokers)
        while found != READ | WRITE:
            await asyncio.sleep(0.05)
            found = await permission(brokers)


async def replicated(brokers: Brokers, seconds: int) -> None:
    """A pair that has a message, then stops."""
    master = await brokers.master(brokerRole="SYNC_MASTER", writesAwaitSlavesSeconds=seconds)
    await brokers.slave()
    await until(lambda: master.to_slaves.master.in_sync() == 1, "the slave follows")
    ok(await brokers.talk(master).send(TOPIC))
    assert await permission(brokers) == READ | WRITE
    await brokers.stop("slave")
    await brokers.stop("master")


async def test_producers_are_told_when_the_slave_follows(brokers: Brokers) -> None:
    await replicated(brokers, 3600)
    await brokers.master(brokerRole="SYNC_MASTER", writesAwaitSlavesSeconds=3600)
    assert await permission(brokers) == READ
    await brokers.slave()
    await offered(brokers)


async def test_a_slave_that_stays_away_keeps_its_master_from_nothing(brokers: Brokers) -> None:
    await replicated(brokers, 1)
    await brokers.master(brokerRole="SYNC_MASTER", writesAwaitSlavesSeconds=1)
    await offered(brokers)


async def test_a_master_that_never_had_a_slave_does_not_wait(brokers: Brokers) -> None:
    master = await brokers.master(brokerRole="SYNC_MASTER", writesAwaitSlavesSeconds=3600)
    await brokers.talk(master).send(TOPIC)
    await brokers.stop("master")
    await brokers.master(brokerRole="SYNC_MASTER", writesAwaitSlavesSeconds=3600)
    assert await permission(brokers) == READ | WRITE
