"""The power of all members fails at once: what was acknowledged is there when they start again."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ariane.dledger.storage.files import LedgerFiles, ledger_folder
from ariane.env import Env
from ariane.store import MessageStore, PutStatus, StoreOptions
from ariane.testing import faults
from ariane.testing.faults import MemoryFiles
from tests.dledger.group import Group

CUTS = int(os.environ.get("DLEDGER_CUTS", "2"))


@asynccontextmanager
async def powered(files: MemoryFiles, root: Path) -> AsyncIterator[Group]:
    group = Group(root, file_size=1 << 16)
    try:
        await group.start(env=Env(files=files))
        yield group
    finally:
        await group.stop()


async def send_until_the_cut(group: Group, label: str, count: int) -> list[bytes]:
    """Send from several tasks; returns what is acknowledged when `count` are, while others are on their way."""
    acknowledged: list[bytes] = []
    enough = asyncio.Event()

    async def sender(number: int) -> None:
        for n in range(10_000):
            leader = await group.leader()
            body = b"%s-%d-%d" % (label.encode(), number, n)
            if await leader.put(body, queue_id=number) is PutStatus.OK:
                acknowledged.append(body)
                if len(acknowledged) >= count:
                    enough.set()

    tasks = [asyncio.create_task(sender(number)) for number in range(8)]
    async with asyncio.timeout(120):
        await enough.wait()
    for task in tasks:
        task.cancel()
    return acknowledged


@pytest.mark.parametrize("torn", [False, True])
async def test_nothing_acknowledged_is_lost_when_the_power_of_all_fails(tmp_path: Path, torn: bool) -> None:
    files, acknowledged = MemoryFiles(), set[bytes]()
    for cut in range(CUTS):
        async with powered(files, tmp_path) as group:
            await group.leader()  # it leads again after each cut
            acknowledged |= set(await send_until_the_cut(group, str(cut), 100))
            files = files.after_torn_writes(cut) if torn else files.after_power_cut()
    async with powered(files, tmp_path) as group:
        await group.fill(1, "last")
        await group.caught_up()
        for running in group.running.values():
            found = set()
            for topic, queue in running.store.queues():
                for offset in range(running.store.max_offset(topic, queue)):
                    unit = running.store.unit_at(running.store.physical_offset(topic, queue, offset))
                    assert unit is not None
                    assert unit.queue_offset == offset
                    found.add(unit.body)
            assert acknowledged <= found


async def test_the_same_without_syncs_loses_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    monkeypatch.setattr(faults._Mapped, "sync", lambda _: None)
    files = MemoryFiles()
    async with powered(files, tmp_path) as group:
        acknowledged = await send_until_the_cut(group, "x", 100)
        files = files.after_power_cut()
    for id in ("n0", "n1", "n2"):
        ledger = LedgerFiles(ledger_folder(tmp_path / id, id), files, index_file_units=1 << 12)
        options = StoreOptions(root=tmp_path / id, commitlog=ledger.folder / "data", commitlog_file_size=1 << 16)
        store = MessageStore(options, Env(files=files), ledger.make_log)
        store.open()
        assert ledger.log.last_index + 1 < len(acknowledged)
