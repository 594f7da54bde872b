"""Groups of Apache's and Ariane's members: the rolling way from one to the other and back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ariane.dledger.group_status import GroupClient
from ariane.env import SystemClock
from ariane.errors import ClientError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.units import decode_units
from ariane.remoting import Client
from tests.broker.talk import pull_fields
from tests.dledger.brokers import BrokerGroup, send
from tests.dledger.group import until
from tests.peers import Driver
from tests.peers.aio import aio
from tests.peers.servers import ApacheBroker

pytestmark = pytest.mark.timeout(600)


class MixedGroup(BrokerGroup):
    """A group whose members may be Apache's, each on its own folder whatever it runs."""

    def __init__(self, root: Path, start_apache: Callable[..., ApacheBroker]) -> None:
        super().__init__(root)
        self.apache: dict[str, ApacheBroker] = {}
        self._start_apache = start_apache

    async def start_apache(self, id: str) -> None:
        config: dict[str, Any] = {
            "brokerName": "ledger",
            "enableDLegerCommitLog": "true",
            "dLegerGroup": "ledger",
            "dLegerPeers": self.peers,
            "dLegerSelfId": id,
            "mappedFileSizeCommitLog": 4 << 20,
            "mappedFileSizeConsumeQueue": 20 * 1000,
            "maxHashSlotNum": 400,
            "maxIndexNum": 1000,
        }
        self.apache[id] = await asyncio.to_thread(
            self._start_apache, self.name_servers, store=self.root / id, config=config
        )

    async def leader(self) -> str:
        """The member that the name server knows as the master."""
        addresses = {broker.address: id for id, broker in self.brokers.items()}
        addresses |= {broker.address: id for id, broker in self.apache.items()}
        await until(lambda: self.registered().get(0) in addresses)
        return addresses[self.registered()[0]]

    async def leave(self, id: str) -> None:
        """Stop a member of Ariane's, kill one of Apache's."""
        if id in self.brokers:
            await self.stop(id)
        else:
            await asyncio.to_thread(self.apache.pop(id).kill)

    async def in_sync(self, topic: str, sent: list[str]) -> None:
        """Wait until every Ariane member has all messages in its queues."""
        await until(lambda: all(set(sent) <= set(self.bodies(id, topic)) for id in self.brokers))


@pytest.fixture
async def group(tmp_path: Path, apache_broker: Callable[..., ApacheBroker]) -> AsyncIterator[MixedGroup]:
    group = MixedGroup(tmp_path, apache_broker)
    try:
        yield group
    finally:
        for id in list(group.apache):
            await group.leave(id)
        await group.stop()


async def test_a_group_moves_member_by_member_from_apache_to_ariane_and_back(group: MixedGroup) -> None:
    await group.start_name_server()
    await asyncio.gather(group.start_apache("n0"), group.start_apache("n1"))
    await group.start("n2")
    sent = await send(group, "orders", 20, "two-apache-")
    await group.in_sync("orders", sent)
    leader = await group.leader()
    await group.leave(leader)  # killed if it is Apache's; the other two go on
    sent += await send(group, "orders", 20, "one-gone-")
    await group.start(leader)  # a folder of Apache's continues with Ariane
    for id in list(group.apache)[1:]:
        await group.leave(id)
        await group.start(id)
    [apache] = group.apache
    sent += await send(group, "orders", 20, "one-apache-")
    if await group.leader() == apache:  # let Ariane lead
        await group.leave(apache)
        sent += await send(group, "orders", 5, "none-")
        await group.start_apache(apache)
    sent += await send(group, "orders", 20, "ariane-leads-")
    await group.in_sync("orders", sent)
    leader = await group.leader()
    assert leader in group.brokers
    addresses = dict(peer.split("-", 1) for peer in group.peers.split(";"))
    client = GroupClient(addresses[leader], SystemClock())
    with pytest.raises(ClientError, match=f"{apache} runs Apache's broker"):
        await client.remove(next(id for id in addresses if id not in (leader, apache)))
    await client.close()
    await group.leave(leader)
    sent += await send(group, "orders", 20, "both-needed-")  # a majority is one of each
    await group.start_apache(leader)  # a folder of Ariane's continues with Apache's
    sent += await send(group, "orders", 20, "back-")
    await group.in_sync("orders", sent)
    for broker in group.apache.values():
        async with asyncio.timeout(60):
            found = await pulled(broker.address, "orders")
            while not set(sent) <= set(found):  # a slave of Apache's learns of topics each 10 s
                await asyncio.sleep(0.2)
                found = await pulled(broker.address, "orders")


async def test_apaches_brokers_serve_a_folder_in_which_members_were_changed(group: MixedGroup, deep: bool) -> None:
    if not deep:
        pytest.skip("three more brokers of Apache's: with --deep")
    await group.start()
    await group.master()
    sent = await send(group, "orders", 20, "before-")
    addresses = dict(peer.split("-", 1) for peer in group.peers.split(";"))
    client = GroupClient(addresses["n0"], SystemClock())
    await client.remove("n2")
    await until(lambda: all(len(voters(group, id)) == 2 for id in ("n0", "n1")))
    await client.add("n2", addresses["n2"])
    await until(lambda: all(len(voters(group, id)) == 3 for id in group.brokers))
    await client.close()
    sent += await send(group, "orders", 20, "after-")
    await group.in_sync("orders", sent)
    await group.stop("n0", "n1", "n2")
    await asyncio.gather(*(group.start_apache(id) for id in addresses))
    sent += await send(group, "orders", 20, "apache-")
    async with asyncio.timeout(120):
        for broker in group.apache.values():
            found = await pulled(broker.address, "orders")
            while not set(sent) <= set(found):
                await asyncio.sleep(0.2)
                found = await pulled(broker.address, "orders")


def voters(group: MixedGroup, id: str) -> frozenset[str]:
    member = group.brokers[id].group
    assert member is not None
    assert member.member.node is not None
    return member.member.node.log.committed_membership[1].voters


async def test_apaches_client_reads_every_message_of_a_ledger_written_by_ariane(
    group: MixedGroup, java: Driver
) -> None:
    """A group of one, so that nothing is copied: Apache's broker opens the files as they are."""
    group.peers = group.peers.partition(";")[0]
    await group.start("n0")
    sent = await send(group, "orders", 300, "m")
    records = group.brokers["n0"].group
    assert records is not None
    assert records.tables.image.complete  # there are table records between the messages
    await group.stop("n0")
    await group.start_apache("n0")
    assert await group.leader() == "n0"
    options = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
    async with await aio(java).push_consumer(group.name_servers, {"orders": "*"}, **options) as consumer:
        found = await consumer.await_messages(len(sent))
    assert sorted(message.body.decode() for message in found) == sorted(sent)


async def pulled(address: str, topic: str) -> list[str]:
    """The messages of a topic that a broker serves, master or slave."""
    client = Client(clock=SystemClock())
    found: list[str] = []
    try:
        for queue in range(8):
            offset = 0
            while True:
                fields = pull_fields(topic, queue, offset)
                answer = await client.request(address, Command(RequestCode.PULL_MESSAGE, fields), 10)
                if answer.code != 0:
                    break
                units = decode_units(answer.body)
                found += [unit.body.decode() for unit in units]
                offset = units[-1].queue_offset + 1
    finally:
        await client.close()
    return found
