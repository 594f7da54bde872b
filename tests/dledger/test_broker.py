"""A broker on a ledger: the group elects the master, sends wait for a majority, clients follow."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane import Message, aio
from ariane.broker.config import BrokerOptions
from ariane.errors import ArianeError
from ariane.protocol.codes import ResponseCode
from ariane.settings import ConfigError
from tests.broker.talk import Talk
from tests.dledger.brokers import BrokerGroup
from tests.dledger.group import until


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[BrokerGroup]:
    group = BrokerGroup(tmp_path)
    try:
        await group.start()
        yield group
    finally:
        await group.stop()


async def send(group: BrokerGroup, topic: str, count: int, label: str) -> list[str]:
    """Send messages, each as often as it takes; returns the bodies."""
    options = {"name_servers": group.name_servers, "send_timeout": 5.0, "route_interval": 0.2}
    sent = []
    async with aio.Producer("senders", **options) as producer:  # type: ignore[arg-type]
        for n in range(count):
            body = f"{label}{n}"
            async with asyncio.timeout(60):
                while True:
                    try:
                        await producer.send(Message(topic, body.encode(), keys=body))
                        break
                    except ArianeError:
                        await asyncio.sleep(0.1)
            sent.append(body)
    return sent


def bodies(group: BrokerGroup, id: str, topic: str) -> list[str]:
    store = group.brokers[id].store
    found = []
    for name, queue in sorted(store.queues()):
        if name == topic:
            for offset in range(store.max_offset(topic, queue)):
                unit = store.unit_at(store.physical_offset(topic, queue, offset))
                assert unit is not None
                found.append(unit.body.decode())
    return found


async def test_one_broker_is_master_and_the_others_are_slaves_under_ids_of_their_own(group: BrokerGroup) -> None:
    master = await group.master()
    slaves = {int(id[1:]) + 1: group.brokers[id].address for id in group.brokers if id != master}
    await until(lambda: group.registered() == {0: group.brokers[master].address, **slaves})


async def test_sends_reach_every_member_and_survive_a_change_of_the_master(group: BrokerGroup) -> None:
    master = await group.master()
    sent = await send(group, "orders", 30, "a")
    await group.stop(master)
    second = await group.master()
    assert second != master
    sent += await send(group, "orders", 30, "b")
    await group.start(master)
    await until(lambda: all(set(sent) <= set(bodies(group, id, "orders")) for id in group.brokers))
    found = [bodies(group, id, "orders") for id in group.brokers]
    assert found[0] == found[1] == found[2]


async def test_a_slave_refuses_sends_as_apaches_does(group: BrokerGroup) -> None:
    master = await group.master()
    await send(group, "orders", 1, "a")
    slave = next(id for id in group.brokers if id != master)
    async with Talk.beside(group.brokers[slave]) as talk:
        answer = await talk.send("orders", b"no")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("dLegerGroup=g\ndLegerPeers=n0-a:1\ndLegerSelfId=n1", "dLegerSelfId"),
        ("dLegerGroup=g\ndLegerPeers=first-a:1\ndLegerSelfId=first", "dLegerSelfId"),
        ("dLegerGroup=g\ndLegerSelfId=n0", "dLegerPeers"),
    ],
)
def test_a_member_that_cannot_take_part_is_refused_at_the_start(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerOptions.load(f"enableDLegerCommitLog=true\n{text}")
    assert caught.value.key == key
