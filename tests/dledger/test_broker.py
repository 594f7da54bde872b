"""A broker on a ledger: the group elects the master, sends wait for a majority, clients follow."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane import Message, aio
from ariane.broker.config import BrokerOptions
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.settings import ConfigError
from tests.broker.talk import Talk
from tests.dledger.brokers import BrokerGroup, send
from tests.dledger.group import until


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[BrokerGroup]:
    group = BrokerGroup(tmp_path)
    try:
        await group.start()
        yield group
    finally:
        await group.stop()


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
    await until(lambda: all(set(sent) <= set(group.bodies(id, "orders")) for id in group.brokers))
    found = [group.bodies(id, "orders") for id in group.brokers]
    assert found[0] == found[1] == found[2]


async def test_queues_without_a_message_are_kept_because_the_other_members_have_them(group: BrokerGroup) -> None:
    master = await group.master()
    await send(group, "rare", 1, "a")
    store = group.brokers[master].store
    [place] = [place for place in store.queues() if place[0] == "rare"]
    async with aio.Producer("senders", name_servers=group.name_servers, send_timeout=30.0) as producer:
        while store.retention._log.expendable() is None:
            await producer.send(Message("orders", os.urandom(1 << 20)))
    store.retention._delete_first()
    async with Talk.beside(group.brokers[master]) as talk:
        answer = await talk.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert answer.code == ResponseCode.SUCCESS
    assert store.max_offset(*place) == 1


async def test_every_member_shows_its_metrics(group: BrokerGroup) -> None:
    await group.master()
    for broker in group.brokers.values():
        assert 'ariane_disk_used_ratio{folder="commitlog"}' in "\n".join(broker.monitor.registry.lines())


async def test_a_slave_refuses_sends_as_apaches_does_unless_it_has_just_lost_the_leadership(group: BrokerGroup) -> None:
    master = await group.master()
    await send(group, "orders", 1, "a")
    slave = next(id for id in group.brokers if id != master)
    member = group.brokers[slave].group
    assert member is not None
    async with Talk.beside(group.brokers[slave]) as talk:
        await talk.send_ok("orders", b"passed on")
        await until(lambda: "passed on" in group.bodies(master, "orders"))
        member.forwarding._until = 0  # long after its start
        answer = await talk.send("orders", b"no")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_a_send_to_a_deposed_leader_waits_for_the_next_one(group: BrokerGroup) -> None:
    """As Apache's client sends, whose routes are up to 30 s old."""
    master = await group.master()
    async with Talk.beside(group.brokers[master]) as talk:
        await talk.send_ok("orders", b"before")
        ledger, other = group.brokers[master].group, next(id for id in group.brokers if id != master)
        assert ledger is not None
        ledger.member.transfer(other)
        codes = []
        while group.brokers[other].role.is_slave or len(codes) < 3:
            codes.append((await talk.send("orders", b"after")).code)
        assert set(codes) == {0}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("dLegerGroup=g\ndLegerPeers=n0-a:1\ndLegerSelfId=n1", "dLegerSelfId"),
        ("dLegerGroup=g\ndLegerPeers=first-a:1\ndLegerSelfId=first", "dLegerSelfId"),
        ("dLegerGroup=g\ndLegerSelfId=n0", "dLegerPeers"),
        ("dLegerGroup=g\ndLegerPeers=n0-a:1;n0-b:1\ndLegerSelfId=n0", "dLegerPeers"),
        ("dLegerGroup=g\ndLegerPeers=n0-a:1;n1-a:1\ndLegerSelfId=n0", "dLegerPeers"),
        ("dLegerGroup=g\ndLegerPeers=n0-a:1\ndLegerSelfId=n0\ndLegerHeartbeatInterval=501", "dLegerElectionTimeout"),
    ],
)
def test_a_member_that_cannot_take_part_is_refused_at_the_start(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerOptions.load(f"enableDLegerCommitLog=true\n{text}")
    assert caught.value.key == key


async def ariane(*words: str, code: int = 0) -> str:
    """Run `ariane dledger`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ariane", "dledger", *words, stdout=PIPE, stderr=STDOUT
    )
    told, _ = await process.communicate()
    assert process.returncode == code, told.decode()
    return told.decode()


async def test_operators_remove_a_broker_and_add_it_again(group: BrokerGroup) -> None:
    master = await group.master()
    await send(group, "orders", 5, "a")
    other = next(id for id in group.brokers if id != master)
    addresses = dict(peer.split("-", 1) for peer in group.peers.split(";"))
    assert await ariane("remove", addresses[master], other) == f"{other} is removed\n"
    removed = group.brokers[other]
    assert removed.group is not None
    rows = removed.group.status_rows
    await until(lambda: "removed" in rows().get("ledgerProblem", ""))
    assert "ariane_ledger_outside 1" in "\n".join(removed.monitor.registry.lines())
    assert "not an address" in await ariane("add", "nowhere", other, addresses[other], code=1)
    assert "host:port" in await ariane("add", addresses[master], other, "nowhere", code=1)
    assert (await ariane("add", addresses[master], other, addresses[other])).endswith(f"{other} votes\n")
    await until(lambda: "ledgerProblem" not in rows() and rows()["ledgerVoters"] == "n0 n1 n2")
    sent = await send(group, "orders", 5, "b")
    await until(lambda: set(sent) <= set(group.bodies(other, "orders")))


async def test_operators_see_the_group_and_hand_the_leadership_over(group: BrokerGroup) -> None:
    master = await group.master()
    address = group.peers.split(";")[0].partition("-")[2]
    members = json.loads(await ariane("status", address, "--json"))
    assert [(one["id"], one["kind"]) for one in members] == [("n0", "Ariane"), ("n1", "Ariane"), ("n2", "Ariane")]
    assert [one["id"] for one in members if one["role"] == "leader"] == [master]
    other = next(id for id in group.brokers if id != master)
    assert await ariane("transfer", address, other) == f"{other} leads\n"
    assert await group.master() == other
    assert other in await ariane("status", address)
    assert "give an address of dLegerPeers" in await ariane("status", group.brokers[other].address, code=1)


@pytest.mark.slow
async def test_a_delayed_message_is_delivered_by_the_next_leader(group: BrokerGroup) -> None:
    master = await group.master()
    await send(group, "orders", 1, "now")
    async with aio.Producer("senders", name_servers=group.name_servers, send_timeout=5.0) as producer:
        await producer.send(Message("orders", b"later", delay_level=2))
    await group.stop(master)
    second = await group.master()
    await until(lambda: "later" in group.bodies(second, "orders"))


class FailsOnce:
    """A part of the master's role whose first start fails."""

    failed = False

    async def start(self) -> None:
        if not self.failed:
            self.failed = True
            raise OSError("once")

    async def stop(self) -> None:
        """Nothing runs."""


async def test_a_leader_whose_change_of_role_fails_tries_again(group: BrokerGroup) -> None:
    """It leads all the time, so that no election would help."""
    master = await group.master()
    parts = [FailsOnce() for _ in range(2)]
    for part, broker in zip(parts, [b for id, b in group.brokers.items() if id != master], strict=True):
        broker.role.on_master(part)
    await group.stop(master)
    await group.master()
    assert any(part.failed for part in parts)
