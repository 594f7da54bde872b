"""Bits that change on a disk are found and repaired from another member."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane.dledger.group_status import GroupClient
from ariane.dledger.scrub import ENTRY_CODE, is_whole
from ariane.dledger.storage.entry import ENTRY_HEADER, INDEX_UNIT
from ariane.env import SystemClock
from ariane.errors import ArianeError
from ariane.protocol.command import Command
from ariane.remoting import Client
from tests.dledger.group import Group, Running, until


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    group = Group(tmp_path, election_ms=500)
    try:
        await group.start()
        yield group
    finally:
        await group.stop()


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


def flip_in_entry(running: Running, index: int, at: int) -> None:
    position, _, _ = place(running, index)
    base = max(base for base in running.files.log.bases() if base <= position)
    flip(running.files.folder / "data" / f"{base:020}", position - base + at)


def place(running: Running, index: int) -> tuple[int, int, int]:
    found = running.files.log.index.get(index)
    assert found is not None
    return found


def entry_is_whole(running: Running, index: int) -> bool:
    position, size, term = place(running, index)
    record = running.files.log.record(position, size)
    return record is not None and is_whole(record, index, term, position)


@pytest.mark.parametrize("leads", [True, False])
async def test_flipped_bits_are_repaired_and_readers_get_the_right_bytes(group: Group, leads: bool) -> None:
    acknowledged = await group.fill(300)
    await group.same_everywhere(acknowledged)
    leader = await group.leader()
    damaged = next(r for r in group.running.values() if (r is leader) == leads)
    places = {20: 16, 21: 60, 100: ENTRY_HEADER.size + 3, 101: 33, 102: 45, 250: 100}  # headers and bodies
    for index, at in places.items():
        flip_in_entry(damaged, index, at)
        assert not entry_is_whole(damaged, index)
    await until(lambda: damaged.member.scrub.repaired == len(places))
    assert not damaged.member.scrub.damaged
    assert all(entry_is_whole(damaged, index) for index in places)
    await group.same_everywhere(acknowledged)
    logs = [b"".join(bytes(r.store.log.span(b)[2]) for b in r.store.log.bases()) for r in group.running.values()]  # type: ignore[index]
    assert logs[0] == logs[1] == logs[2]
    client = GroupClient(group.peers["n0"], SystemClock())
    try:
        shown = {one.id: (one.repaired, one.problem) for one in await client.status()}
    finally:
        await client.close()
    assert shown[damaged.member.options.id] == (len(places), "")
    assert sum(repaired for repaired, _ in shown.values()) == len(places)


async def test_a_damaged_index_is_written_again_from_the_entries(group: Group) -> None:
    await group.same_everywhere(await group.fill(50))
    damaged = next(iter(group.running.values()))
    before = place(damaged, 30)
    damaged.files.log.index.flush()
    flip(damaged.files.folder / "index" / f"{0:020}", 30 * INDEX_UNIT.size + 9)
    await until(lambda: damaged.files.log.index.get(30) == before)
    flip(damaged.files.folder / "index" / f"{0:020}", 30 * INDEX_UNIT.size + 9)
    flip_in_entry(damaged, 31, 20)
    await until(lambda: damaged.files.log.index.get(30) == before and entry_is_whole(damaged, 31))


async def test_damage_without_another_copy_is_reported_and_repaired_when_there_is_one(group: Group) -> None:
    acknowledged = await group.fill(50)
    await group.same_everywhere(acknowledged)
    first, *others = group.running
    alone = group.running[first]
    await group.stop(*others)
    flip_in_entry(alone, 25, 70)
    await until(lambda: 25 in alone.member.scrub.damaged)
    metadata = alone.member.metadata("")
    assert metadata.ariane is not None
    assert metadata.ariane.damaged == 1
    await group.start(*others)
    await until(lambda: alone.member.scrub.repaired == 1)
    await group.same_everywhere(acknowledged)


async def test_a_damaged_copy_repairs_nothing_and_nobody_reads_the_log_by_asking(group: Group) -> None:
    acknowledged = await group.fill(50)
    await group.same_everywhere(acknowledged)
    first, second, third = group.running.values()
    for running in (first, second):
        flip_in_entry(running, 25, 70)
    await until(lambda: first.member.scrub.repaired == second.member.scrub.repaired == 1)
    await group.same_everywhere(acknowledged)
    client = Client(clock=SystemClock())
    try:
        connection = await client.connection(third.member.options.peers[third.member.options.id])
        asked = first.member.scrub._encode(False, 1, 25, -1, b"")
        forged = first.member.scrub._encode(True, first.member.scrub._nonce, 25, -1, b"forged")
        for body in (asked, forged, b"", asked[:20], b"\xff" * 60):
            connection.oneway(Command(ENTRY_CODE, None, body))
        with pytest.raises(ArianeError):  # no answer on this connection
            await client.request(
                third.member.options.peers[third.member.options.id], Command(ENTRY_CODE, None, asked), 1
            )
    finally:
        await client.close()
    assert third.member.scrub.repaired == 0
    await group.same_everywhere(acknowledged)
