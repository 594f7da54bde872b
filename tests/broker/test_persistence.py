"""The files of the config folder: one writer each, waiters that wait for their own change, and journals."""

import asyncio
import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ariane.broker.tables import persistence
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import JournaledTable, KeptTable
from ariane.env import Env, ManualClock, SystemFiles
from ariane.protocol.bodies import (
    ConsumerOffsetTable,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    TopicConfigTable,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.remoting import Refusals
from ariane.testing.faults import Crash, MemoryFiles
from tests.broker.talk import PATIENCE, Talk, settled, small_broker
from tests.broker.test_topics import create_fields

PATH = Path("/store/config/consumerOffset.json")


class GatedFiles(SystemFiles):
    """The machine's files; replacing a file whose name contains `part` waits for the gate."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.fails = False
        self.writers = 0
        self.most_writers = 0

    def replace(self, path: Path, data: bytes) -> None:
        if self.part not in path.name:
            return super().replace(path, data)
        self.writers += 1
        self.most_writers = max(self.most_writers, self.writers)
        self.entered.set()
        try:
            assert self.gate.wait(PATIENCE)
            if self.fails:
                raise OSError(errno.EIO, "the test says so", str(path))
            super().replace(path, data)
        finally:
            self.writers -= 1


def topics_on_disk(store: Path) -> set[str]:
    return set(TopicConfigTable.decode((store / "config" / "topics.json").read_bytes()).topic_config_table)


async def test_a_topic_created_during_a_write_is_answered_when_it_is_on_disk_too(tmp_path: Path) -> None:
    files = GatedFiles("topics.json")
    async with Talk.to(small_broker(tmp_path, env=Env(files=files))) as talk:
        answered: dict[str, set[str]] = {}

        async def send(topic: str) -> None:
            await talk.send_ok(topic)
            answered[topic] = topics_on_disk(tmp_path)

        first = asyncio.ensure_future(send("first"))
        await settled(files.entered.is_set)
        others = [asyncio.ensure_future(send(f"other-{n}")) for n in range(5)]
        await settled(lambda: "other-4" in talk.broker.topics)
        files.gate.set()
        await asyncio.gather(first, *others)
        assert all(topic in held for topic, held in answered.items())
        assert files.most_writers == 1


async def test_saves_asked_for_at_once_share_one_writer(tmp_path: Path) -> None:
    files = GatedFiles("table.json")
    version = 0
    table = KeptTable(files, tmp_path / "table.json", lambda: b"%d" % version, lambda _: None)
    version = 1
    table.save_soon()
    await settled(files.entered.is_set)
    version = 2
    saves = [asyncio.ensure_future(table.save()), asyncio.ensure_future(table.retry())]
    await asyncio.sleep(0)
    saves[0].cancel()  # a caller that goes away does not stop the writer
    files.gate.set()
    await saves[1]
    assert (tmp_path / "table.json").read_bytes() == b"2"
    assert files.most_writers == 1


async def test_a_topic_that_cannot_be_written_is_an_error_until_it_can(tmp_path: Path) -> None:
    files = GatedFiles("topics.json")
    files.gate.set()
    files.fails = True
    async with Talk.to(small_broker(tmp_path, env=Env(files=files))) as talk:
        refused = await talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create_fields("orders"))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "topics.json could not be written" in (refused.remark or "")
        assert (await talk.send("letters")).code == ResponseCode.FLUSH_DISK_TIMEOUT
        files.fails = False
        assert (await talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create_fields("orders"))).code == 0
        assert {"orders", "letters"} <= topics_on_disk(tmp_path)
        await talk.send_ok("letters")


async def test_a_group_is_on_disk_before_its_creation_is_answered(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path)) as talk:
        body = SubscriptionGroupConfig("workers").encode()
        assert (await talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)).code == 0
        kept = SubscriptionGroupTable.decode((tmp_path / "config" / "subscriptionGroup.json").read_bytes())
        assert "workers" in kept.subscription_group_table


# Journals.


def journaled(files: MemoryFiles) -> tuple[OffsetTable, JournaledTable]:
    offsets = OffsetTable(ManualClock(), 100, 100, Refusals())
    table = JournaledTable(
        files,
        PATH,
        lambda: offsets.table().encode(),
        lambda data: offsets.load(ConsumerOffsetTable.decode(data)),
        offsets.take_changes,
        offsets.apply_changes,
    )
    table.load()
    return offsets, table


def offset_after(files: MemoryFiles) -> int:
    return journaled(files)[0].get("g", "orders", 0)


async def test_appended_offsets_survive_a_kill_and_a_power_cut() -> None:
    files = MemoryFiles()
    offsets, table = journaled(files)
    offsets.commit("g", "orders", 0, 3)
    await table.save()
    written = files.read(PATH)
    for offset in (5, 9):
        offsets.commit("g", "orders", 0, offset)
        await table.append()
    assert files.read(PATH) == written
    assert [offset_after(files.after_kill()), offset_after(files.after_power_cut())] == [9, 9]


async def test_a_save_folds_the_journal_into_the_file() -> None:
    files = MemoryFiles()
    offsets, table = journaled(files)
    offsets.commit("g", "orders", 0, 5)
    await table.append()
    await table.save()
    assert files.list(PATH.parent) == [PATH.name]
    assert ConsumerOffsetTable.decode(files.read(PATH)).offset_table == {"orders@g": {0: 5}}


async def test_a_large_journal_is_folded_into_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "LARGEST_JOURNAL", 200)
    files = MemoryFiles()
    offsets, table = journaled(files)
    journal, sizes = PATH.with_suffix(".journal"), set()
    for offset in range(100):
        offsets.commit("g", "orders", 0, offset)
        await table.append()
        sizes.add(files.size(journal) if files.exists(journal) else 0)
    assert 0 in sizes
    assert max(sizes) < 400
    assert offset_after(files.after_kill()) == 99


async def test_a_start_folds_the_journal_into_the_file() -> None:
    files = MemoryFiles()
    offsets, table = journaled(files)
    offsets.commit("g", "orders", 0, 5)
    await table.append()
    left = files.after_kill()
    journaled(left)
    assert ConsumerOffsetTable.decode(left.read(PATH)).offset_table == {"orders@g": {0: 5}}
    assert not left.exists(PATH.with_suffix(".journal"))


async def test_removed_offsets_stay_removed() -> None:
    files = MemoryFiles()
    offsets, table = journaled(files)
    offsets.commit("g", "orders", 0, 5)
    await table.append()
    offsets.remove_topic("orders")
    await table.append()
    assert offset_after(files.after_kill()) == -1


async def test_a_journal_of_another_text_is_not_used() -> None:
    """Apache's broker ran in between and wrote the file; it does not know the journal."""
    files = MemoryFiles()
    offsets, table = journaled(files)
    offsets.commit("g", "orders", 0, 5)
    await table.append()
    left = files.after_kill()
    left.replace(PATH, b'{"offsetTable":{"orders@g":{0:100}}}')
    assert offset_after(left) == 100


async def test_a_damaged_record_ends_the_journal() -> None:
    files = MemoryFiles()
    offsets, table = journaled(files)
    lengths = []
    for offset in (5, 6, 7):
        offsets.commit("g", "orders", 0, offset)
        await table.append()
        lengths.append(files.size(PATH.with_suffix(".journal")))
    whole = files.read(PATH.with_suffix(".journal"))
    for cut in range(lengths[0], lengths[2] + 1):
        for tail in (b"", b"\0" * 64):
            left = files.after_kill()
            left.replace(PATH.with_suffix(".journal"), whole[:cut] + tail)
            assert offset_after(left) == 5 + sum(cut >= length for length in lengths[1:])


async def test_offsets_never_go_back_wherever_the_process_or_the_power_ends() -> None:
    async def run(files: MemoryFiles, confirmed: Callable[[int], None]) -> None:
        offsets, table = journaled(files)
        for offset in range(1, 9):
            offsets.commit("g", "orders", 0, offset)
            if await (table.save() if offset % 3 == 0 else table.append()):
                confirmed(offset)

    whole = MemoryFiles()
    await run(whole, lambda _: None)
    for stop in range(len(whole.calls)):
        files, kept = MemoryFiles(), [-1]
        files.crash_at = stop
        with suppress(Crash):
            await run(files, kept.append)
        for left in (files.after_kill(), files.after_power_cut(), files.after_torn_writes(stop)):
            assert kept[-1] <= offset_after(left) <= 8


async def test_offsets_are_written_whole_when_the_journal_cannot_be() -> None:
    files = MemoryFiles()
    offsets, table = journaled(files)
    offsets.commit("g", "orders", 0, 1)
    await table.save()
    files.fail("write", part=".journal", times=1)
    offsets.commit("g", "orders", 0, 2)
    assert not await table.append()
    assert await table.append()
    assert offset_after(files.after_kill()) == 2


@pytest.mark.parametrize("name", ["consumerOffset.journal", "delayOffset.journal"])
async def test_no_journal_is_left_by_a_clean_stop(tmp_path: Path, name: str) -> None:
    async with Talk.to(small_broker(tmp_path, messageDelayLevel="1s 2s")) as talk:
        await talk.send_ok("orders")
        await talk.send_ok("orders", properties="DELAY\x011\x02")
        talk.broker.offsets.commit("g", "orders", 0, 1)
        journal = tmp_path / "config" / name
        await settled(journal.exists)
    assert not journal.exists()
    kept = ConsumerOffsetTable.decode((tmp_path / "config" / "consumerOffset.json").read_bytes()).offset_table
    assert kept["orders@g"] == {0: 1}
