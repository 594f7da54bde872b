"""Members of a group in one process: real files, real sockets."""

import errno
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane.env import Env
from ariane.store import PutStatus
from ariane.testing.faults import MemoryFiles
from tests.dledger.group import Group, Running, until
from tests.store.units import read_all


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    group = Group(tmp_path)
    try:
        yield group
    finally:
        await group.stop()


def bodies(running: Running, topic: str = "orders") -> list[bytes]:
    return [unit.body for unit in read_all(running.store, topic)]


async def test_what_is_acknowledged_is_in_the_queues_of_all_members(group: Group) -> None:
    await group.start()
    acknowledged = await group.fill(500)
    await group.same_everywhere(acknowledged)
    await group.caught_up()
    members = group.running.values()
    logs = [b"".join(bytes(r.store.log.span(b)[2]) for b in r.store.log.bases()) for r in members]  # type: ignore[index]
    assert all(len(r.store.log.bases()) > 2 for r in members)
    assert logs[0] == logs[1] == logs[2]


async def test_nothing_is_acknowledged_without_a_majority(group: Group) -> None:
    await group.start()
    leader = await group.leader()
    assert await leader.put(b"before") is PutStatus.OK
    others = [id for id in group.running if group.running[id] is not leader]
    await group.stop(*others)
    status = await leader.put(b"alone")
    assert status in (PutStatus.UNKNOWN_ERROR, PutStatus.OS_PAGE_CACHE_BUSY, PutStatus.SERVICE_NOT_AVAILABLE)
    assert bodies(leader) == [b"before"]
    await until(lambda: not leader.member.serving)
    assert await leader.put(b"refused") is PutStatus.SERVICE_NOT_AVAILABLE


async def test_a_follower_refuses_messages(group: Group) -> None:
    await group.start()
    leader = await group.leader()
    for running in group.running.values():
        if running is not leader:
            assert await running.put(b"no") is PutStatus.SERVICE_NOT_AVAILABLE


async def test_another_member_leads_after_the_leader_is_gone_and_nothing_is_lost(group: Group) -> None:
    await group.start()
    acknowledged: list[bytes] = []
    for round_ in range(3):
        acknowledged += await group.fill(50, f"{round_}-")
        id = (await group.leader()).member.options.id
        await group.stop(id)
        await group.leader()
        await group.start(id)
    await group.same_everywhere(acknowledged)


async def test_a_group_that_was_stopped_as_a_whole_comes_back(group: Group) -> None:
    await group.start()
    acknowledged = await group.fill(100)
    await group.stop()
    await group.start()
    acknowledged += await group.fill(1, "after")
    await group.same_everywhere(acknowledged)


async def test_a_wiped_member_refills_and_votes_again(group: Group) -> None:
    await group.start()
    acknowledged = await group.fill(300)
    leader = await group.leader()
    id = next(id for id in group.running if group.running[id] is not leader)
    await group.stop(id)
    shutil.rmtree(group.root / id)
    await group.start(id)
    await group.same_everywhere(acknowledged)
    wiped = group.running[id].member
    await until(lambda: wiped.node is not None and not wiped.node.hard_state.abstaining)


async def test_wiped_members_begin_no_new_group_while_the_one_with_the_log_is_to_come(group: Group) -> None:
    """As when a machine room starts again: the member with the log recovers it before it answers."""
    await group.start()
    acknowledged = await group.fill(50)
    id = (await group.leader()).member.options.id
    await group.caught_up()
    await group.stop()
    wiped = sorted({"n0", "n1", "n2"} - {id})
    for other in wiped:
        shutil.rmtree(group.root / other)
    group.gather_ms = 1 << 40
    await group.start(*wiped)
    members = [group.running[other].member for other in wiped]
    await until(
        lambda: all(member.peers[other].ready for member in members for other in wiped if other in member.peers)
    )
    assert [member.node for member in members] == [None, None]
    await group.start(id)
    await until(lambda: all(member.node is not None for member in members))
    assert all("does not vote" in member.abstaining for member in members)
    assert bodies(group.running[id]) == acknowledged


async def test_a_member_with_a_log_does_not_join_a_group_that_was_begun_anew(group: Group) -> None:
    """The others have lost their disks, and terms and indexes are the same: only the entries tell."""
    await group.start()
    acknowledged = await group.fill(50)
    await group.caught_up()
    id = (await group.leader()).member.options.id
    await group.stop()
    others = sorted({"n0", "n1", "n2"} - {id})
    for other in others:
        shutil.rmtree(group.root / other)
    await group.start(*others)
    anew = await group.fill(20, "anew")
    await group.start(id)
    survivor = group.running[id]
    await until(lambda: "begun again" in survivor.member.frozen)
    assert bodies(survivor) == acknowledged
    anew += await group.fill(20, "more")
    for other in others:  # the follower learns of the commit after the sender
        await until(lambda other=other: bodies(group.running[other])[: len(anew)] == anew)  # type: ignore[misc]


async def test_a_wiped_member_refills_when_the_leader_has_deleted_old_files(group: Group) -> None:
    await group.start()
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
    leader = await group.leader()
    id = next(id for id in group.running if group.running[id] is not leader)
    await group.stop(id)
    shutil.rmtree(group.root / id)
    await group.start(id)
    left = bodies(leader)
    assert 0 < len(left) < len(acknowledged)
    await group.same_everywhere(left)
    more = await group.fill(1, "more")
    await group.same_everywhere(left + more)
    await group.stop(id)  # and its files open again
    await group.start(id)
    await group.same_everywhere(left + more)


async def test_leadership_is_handed_over(group: Group) -> None:
    await group.start()
    leader = await group.leader()
    await leader.put(b"first")
    id = next(id for id in group.running if group.running[id] is not leader)
    await until(lambda: leader.member.node is not None and leader.member.node.progress(id) is not None)
    leader.member.transfer(id)
    await until(lambda: group.running[id].member.serving)
    assert await group.running[id].put(b"second") is PutStatus.OK
    await group.caught_up()
    assert bodies(leader) == [b"first", b"second"]


async def test_a_leader_whose_disk_is_full_hands_over_to_a_member_that_has_room(group: Group) -> None:
    await group.start()
    acknowledged = await group.fill(20, "before-")
    leader = await group.leader()
    first, second = (running for running in group.running.values() if running is not leader)
    for running in (leader, first):
        running.store.health.fail("disk", "the disk is 99 % full")
    await until(lambda: second.member.serving)
    acknowledged += await group.fill(20, "meanwhile-")
    second.store.health.fail("disk", "the disk is 99 % full")
    assert await second.put(b"no") is PutStatus.SERVICE_NOT_AVAILABLE
    leader.store.health.clear("disk")
    await until(lambda: leader.member.serving)
    acknowledged += await group.fill(20, "after-")
    for running in (first, second):
        running.store.health.clear("disk")
    await group.same_everywhere(acknowledged)


async def test_a_leader_whose_transfer_fails_takes_messages_again_when_it_has_room(group: Group) -> None:
    await group.start()
    leader = await group.leader()
    away = next(id for id in group.running if group.running[id] is not leader)
    await group.stop(away)
    leader.store.health.fail("disk", "the disk is 99 % full")
    leader.member.transfer(away)
    leader.store.health.clear("disk")
    assert await leader.put(b"refused") is PutStatus.SERVICE_NOT_AVAILABLE
    await until(lambda: leader.store.health.accepts)
    assert await leader.put(b"taken") is PutStatus.OK


async def test_a_leader_with_a_failing_disk_hands_its_work_to_others_and_returns(tmp_path: Path) -> None:
    files = MemoryFiles()
    group = Group(tmp_path, file_size=1 << 16)
    try:
        await group.start(env=Env(files=files))
        acknowledged = await group.fill(50, "before-")
        leader = await group.leader()
        rule = files.fail("sync", part=f"{leader.root.name}/dledger")
        assert await leader.put(b"not durable here") is not PutStatus.SERVICE_NOT_AVAILABLE
        await until(lambda: leader.member.frozen)
        other = await group.leader()
        assert other is not leader
        acknowledged += await group.fill(50, "meanwhile-")
        files.rules.remove(rule)
        await until(lambda: not leader.member.frozen)
        acknowledged += await group.fill(50, "after-")
        await group.same_everywhere(acknowledged)
    finally:
        await group.stop()


@pytest.mark.parametrize("what", ["the log", "term and vote"])
async def test_a_follower_whose_disk_was_full_takes_part_again_when_there_is_room(tmp_path: Path, what: str) -> None:
    files = MemoryFiles()
    group = Group(tmp_path, file_size=1 << 14)
    try:
        await group.start(env=Env(files=files))
        acknowledged = await group.fill(20, "before-")
        leader = await group.leader()
        follower = next(running for running in group.running.values() if running is not leader)
        rules = [files.fail("map", errno.ENOSPC, f"{follower.root.name}/dledger")]
        if what == "term and vote":
            rules.append(
                files.fail("write", errno.ENOSPC, f"{follower.root.name}/dledger-{follower.root.name}/currterm")
            )
            id = next(r.member.options.id for r in group.running.values() if r not in (leader, follower))
            leader.member.transfer(id)
            await until(lambda: follower.member.frozen and group.running[id].member.serving)
        acknowledged += await group.fill(200, "meanwhile-")  # more than a file
        await until(lambda: follower.member.frozen)
        for rule in rules:
            files.rules.remove(rule)
        await until(lambda: not follower.member.frozen)
        acknowledged += await group.fill(20, "after-")
        await group.same_everywhere(acknowledged)
        node = follower.member.node
        assert node is not None
        assert not node.hard_state.abstaining
    finally:
        await group.stop()


async def test_a_file_is_kept_until_two_committed_entries_follow_it(group: Group) -> None:
    await group.start()
    await group.fill(200)
    running = await group.leader()
    log = running.files.log
    base = log.bases()[1]
    index = log.first_from(base)
    await until(lambda: log.flushed == log.stored)
    shown = log.end
    for entries, expendable in ((0, False), (1, False), (2, True)):
        log.show(log.end_of(index + entries - 1))
        assert (log.expendable() is not None) is expendable
    log.show(shown)
