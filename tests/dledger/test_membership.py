"""Members that are added and removed while the group runs: real files, real sockets."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane.dledger.group_status import GroupClient
from ariane.dledger.peers.wire import MembersRequest
from ariane.dledger.storage.configuration import CHANNEL, MEMBERS_TOPIC, membership_of
from ariane.dledger.storage.entry import header_at
from ariane.env import SystemClock
from ariane.errors import ClientError
from ariane.store import PutStatus
from ariane.store.results import StoreDamaged
from tests.dledger.group import WAIT, Group, Running, until
from tests.peers import free_port


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    group = Group(tmp_path, election_ms=500)
    try:
        await group.start()
        await group.leader()
        await until(lambda: group.running["n0"].member.leader)
        yield group
    finally:
        await group.stop()


class PatientClient(GroupClient):
    """Asks again while the group elects a leader, as the error says: on a busy machine a leader is voted out."""

    async def _change(self, change: MembersRequest) -> None:
        async with asyncio.timeout(WAIT):
            while True:
                try:
                    return await super()._change(change)
                except ClientError as error:
                    if "the group has no leader now" not in str(error):
                        raise
                    await asyncio.sleep(0.05)


@pytest.fixture
async def client(group: Group) -> AsyncIterator[GroupClient]:
    client = PatientClient(group.peers["n0"], SystemClock())
    try:
        yield client
    finally:
        await client.close()


def voters(running: Running) -> set[str]:
    node = running.member.node
    assert node is not None
    return set(node.log.committed_membership[1].voters)


async def new_member(group: Group, id: str = "n3") -> str:
    """Start a member with an empty folder, whose dLegerPeers names itself and the others."""
    address = f"127.0.0.1:{free_port()}"
    await group.start(id, peers={**group.peers, id: address})
    return address


async def until_voters(group: Group, *ids: str) -> None:
    await until(lambda: all(voters(group.running[id]) == set(ids) for id in ids if id in group.running))


async def test_a_member_with_an_empty_folder_fills_and_votes(group: Group, client: GroupClient) -> None:
    acknowledged = await group.fill(300)
    address = await new_member(group)
    added = group.running["n3"].member
    await until(lambda: added.outside)  # it knows the group, which does not know it
    assert "not a member yet" in added.outside
    await client.add("n3", address)
    await client.add("n3", address)  # again: nothing happens
    await until_voters(group, "n0", "n1", "n2", "n3")
    assert await client.votes("n3") is True
    acknowledged += await group.fill(50, "more")
    await group.same_everywhere(acknowledged)
    assert not added.outside
    assert added.node is not None
    assert not added.node.hard_state.abstaining
    # Three of four: two of the first three are not enough any more.
    leader = await group.leader()
    others = [id for id in group.running if group.running[id] is not leader]
    await group.stop(*others[:2])
    assert await leader.put(b"alone") is not PutStatus.OK


async def test_a_configuration_outlives_restarts_and_counts_more_than_the_options(
    group: Group, client: GroupClient
) -> None:
    acknowledged = await group.fill(20)
    address = await new_member(group)
    await client.add("n3", address)
    await until_voters(group, "n0", "n1", "n2", "n3")
    await client.remove("n2")
    await until_voters(group, "n0", "n1", "n3")
    await group.stop()
    await group.start("n0", "n1")  # their dLegerPeers says n0, n1, n2
    await group.start("n3", peers={**group.peers, "n3": address})
    acknowledged += await group.fill(20, "after")
    await until_voters(group, "n0", "n1", "n3")
    await group.same_everywhere(acknowledged)


async def test_a_removed_member_says_so_and_does_not_campaign(group: Group, client: GroupClient) -> None:
    acknowledged = await group.fill(20)
    leader = await group.leader()
    id = next(id for id in ("n1", "n2") if group.running[id] is not leader)
    removed = group.running[id].member
    await client.remove(id)
    await until(lambda: removed.outside)
    assert "removed" in removed.outside
    term = leader.member.term
    asked = GroupClient(group.peers[id], SystemClock())
    try:
        status = {one.id: one.role for one in await asked.status()}
    finally:
        await asked.close()
    assert status.keys() == group.peers.keys() - {id}  # it names its leader, which knows better
    # Down and up again, with a log that does not know: it asks once and is told.
    await group.stop(id)
    await group.start(id)
    again = group.running[id].member
    await until(lambda: again.outside)
    assert leader.member.serving
    assert leader.member.term == term
    await group.stop(id)
    acknowledged += await group.fill(20, "after")
    await group.same_everywhere(acknowledged)


async def test_a_leader_can_be_removed_and_added_again(group: Group, client: GroupClient) -> None:
    acknowledged = await group.fill(20)
    first = await group.leader()
    id = first.member.options.id
    other = GroupClient(next(address for name, address in group.peers.items() if name != id), SystemClock())
    try:
        await other.remove(id)
        await until(lambda: first.member.outside and not first.member.serving)
        second = await group.leader()
        assert second is not first
        acknowledged += await group.fill(20, "second")
        await other.add(id, group.peers[id])
        await until_voters(group, "n0", "n1", "n2")
        await until(lambda: not first.member.outside)
        acknowledged += await group.fill(20, "third")
        await group.same_everywhere(acknowledged)
    finally:
        await other.close()


async def test_a_new_member_fills_when_the_leader_has_deleted_old_files_and_the_change_with_them(
    group: Group, client: GroupClient
) -> None:
    leader = await group.leader()
    gone = next(id for id in ("n1", "n2") if group.running[id] is not leader)
    await client.remove(gone)
    await until_voters(group, *(set(group.peers) - {gone}))
    await group.stop(gone)
    acknowledged = await group.fill(600)
    await group.same_everywhere(acknowledged)
    for running in group.running.values():
        for _ in range(2):
            await until(lambda log=running.store.log: log.expendable() is not None)  # type: ignore[misc]
            file = running.store.log.drop_first()
            file.close()
            running.store.env.files.remove(file.path)
        for queue in running.store.table:
            queue.correct_min(running.store.log.min_offset)
    address = await new_member(group)
    await client.add("n3", address)
    rest = set(group.peers) - {gone} | {"n3"}
    await until_voters(group, *rest)
    left = await group.same_everywhere([])
    assert 0 < len(left) < len(acknowledged)
    for id in ("n3", "n0"):  # the change that removed a member is in no log any more, and still in force
        await group.stop(id)
        await group.start(id, peers={**group.peers, "n3": address})
    await until_voters(group, *rest)
    await group.same_everywhere(left + await group.fill(1, "more"))


async def test_changes_that_are_not_possible_are_refused_with_a_reason(group: Group, client: GroupClient) -> None:
    await group.fill(1)
    for id, address, reason in (
        ("server", "127.0.0.1:1", "a letter and a number"),
        ("n3", "nowhere", "host:port"),
        ("n1", "127.0.0.1:1", "remove it first"),
        ("n3", group.peers["n1"], "another member"),
    ):
        with pytest.raises(ClientError, match=reason):
            await client.add(id, address)
    leader = await group.leader()
    down, removed = (id for id in group.running if group.running[id] is not leader)
    await group.stop(down)
    asked = GroupClient(group.peers[leader.member.options.id], SystemClock())
    try:
        # Before the leader has noticed that one is down it may try, in vain: nothing is committed without a majority.
        await until(lambda: leader.member.node is not None and down not in leader.member.node.healthy)
        with pytest.raises(ClientError, match="no majority"):
            await asked.remove(removed)
        await asked.remove(down)
        assert await leader.put(b"with two of two") is PutStatus.OK
    finally:
        await asked.close()


async def test_a_damaged_members_file_refuses_the_start(group: Group, client: GroupClient) -> None:
    await client.remove("n2")
    await until_voters(group, "n0", "n1")
    await group.stop("n1")
    (group.root / "n1" / "dledger-n1" / "members").write_bytes(b"{")
    with pytest.raises(StoreDamaged, match="names the members"):
        await group.start("n1")


async def test_a_configuration_is_an_entry_that_readers_pass_over(group: Group, client: GroupClient) -> None:
    await client.remove("n2")
    await until_voters(group, "n0", "n1")
    ledger = group.running["n0"].files.log
    node = group.running["n0"].member.node
    assert node is not None
    entry = group.running["n0"].files.entry(node.log.membership_index)
    record = ledger.record(entry.position, entry.size)
    assert record is not None
    header = header_at(memoryview(record), 0)
    assert header is not None
    assert header.channel == CHANNEL
    assert membership_of(record) == node.log.membership
    assert MEMBERS_TOPIC in record
    queues = [queue for queue in group.running["n0"].store.table if queue.topic == MEMBERS_TOPIC.decode()]
    assert sum(queue.max_offset for queue in queues) == 0


async def test_a_wiped_member_of_a_changed_group_finds_its_place(group: Group, client: GroupClient) -> None:
    address = await new_member(group)
    await client.add("n3", address)
    await until_voters(group, "n0", "n1", "n2", "n3")
    acknowledged = await group.fill(50)
    leader = await group.leader()
    id = next(id for id in ("n1", "n2") if group.running[id] is not leader)
    await group.stop(id)
    shutil.rmtree(group.root / id)
    await group.start(id)  # its dLegerPeers does not have n3
    await group.same_everywhere(acknowledged)
    wiped = group.running[id].member
    await until(lambda: wiped.node is not None and not wiped.node.hard_state.abstaining)
    await until_voters(group, "n0", "n1", "n2", "n3")
