"""A store of a broker without DLedger continues as a member: what it has stays readable below the ledger."""

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ariane.broker.server import Broker
from ariane.dledger.storage.files import LedgerFiles, ledger_folder
from ariane.dledger.storage.plain_part import PlainPart
from ariane.env import Env, Files, ManualClock, SystemFiles
from ariane.protocol.units import decode_unit
from ariane.store import GetStatus, MessageStore, StoreOptions
from ariane.store.results import StoreDamaged
from ariane.testing.faults import Crash, MemoryFiles
from tests.broker.talk import small_options
from tests.dledger.group import Group, Running, until
from tests.recorded import read_manifest, unpack
from tests.store.units import fill, read_all

FIXTURES = Path(__file__).parent.parent / "fixtures"
SIZE = 1 << 14
OLD = 200


def plain_store(root: Path, files: Files | None = None, file_size: int = SIZE) -> MessageStore:
    options = StoreOptions(
        root=root,
        commitlog_file_size=file_size,
        consumequeue_file_entries=1000,
        index_slots=100,
        index_entries=400,
        flush="SYNC_FLUSH",
    )
    store = MessageStore(options, Env(files=files or SystemFiles()))
    store.open()
    return store


async def write_plain(root: Path, count: int = OLD) -> int:
    """Store messages without DLedger; returns the end of the log."""
    store = plain_store(root)
    fill(store, count)
    end = store.log_max
    await store.close()
    return end


def divide_of(end: int) -> int:
    return end - end % SIZE + SIZE


def old_bodies(count: int = OLD) -> list[bytes]:
    return [b"m%d" % n for n in range(count)]


def open_ledger(root: Path, **changes: Any) -> tuple[MessageStore, LedgerFiles]:
    env = Env(files=changes.pop("files", SystemFiles()))
    ledger = LedgerFiles(ledger_folder(root, "n0"), env.files, root / "commitlog", index_file_units=1 << 12)
    sizes: dict[str, Any] = {"commitlog_file_size": SIZE, "consumequeue_file_entries": 1000}
    options = StoreOptions(
        root=root, commitlog=ledger.folder / "data", index_slots=100, index_entries=400, **sizes | changes
    )
    store = MessageStore(options, env, ledger.make_log)
    store.open()
    return store, ledger


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    group = Group(tmp_path, file_size=SIZE)
    yield group
    await group.stop()


def check_old(store: MessageStore, count: int = OLD) -> None:
    """Each old message by its queue, its physical offset, its key and its time."""
    found = read_all(store)
    assert [u.body for u in found[:count]] == old_bodies(count)
    assert [u.queue_offset for u in found] == list(range(len(found)))
    for n, one in enumerate(found[:count]):
        at = store.message_at(one.physical_offset)
        assert at is not None
        assert at.body == one.body
        assert [decode_unit(part).body for part in store.query("orders", f"k{n}", 32, 0, 1 << 60).slices] == [one.body]
    assert (
        found[store.offset_by_time("orders", 0, found[count - 1].store_time)].store_time == found[count - 1].store_time
    )


# -- one member --------------------------------------------------------------------------------------------------------


async def test_old_messages_stay_where_they_are_and_new_ones_follow_them(group: Group) -> None:
    root = group.root / "n0"
    end = await write_plain(root)
    before = [(u.physical_offset, u.store_time) for u in _opened_plain(root)]
    alone = {"n0": group.peers["n0"]}
    await group.start("n0", peers=alone)
    sent = await group.fill(300)
    store = group.running["n0"].store
    check_old(store)
    found = read_all(store)
    assert [u.body for u in found] == old_bodies() + sent
    assert [(u.physical_offset, u.store_time) for u in found[:OLD]] == before
    ledger = group.running["n0"].files.log
    assert ledger.divide == divide_of(end)
    assert found[OLD].physical_offset > ledger.divide
    assert store.log_min == 0
    first = ledger.index.get(0)
    assert first is not None
    assert first[0] == ledger.divide
    await group.stop("n0")
    await group.start("n0", peers=alone)
    sent += await group.fill(10, "again")
    check_old(group.running["n0"].store)
    assert [u.body for u in read_all(group.running["n0"].store)] == old_bodies() + sent


def _opened_plain(root: Path) -> list[Any]:
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    store = plain_store(copy)
    found = read_all(store)
    store._release()
    shutil.rmtree(copy)
    return found


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", [(), ("consumequeue",), ("index",), ("consumequeue", "index")])
async def test_queues_and_index_are_rebuilt_from_both_parts(group: Group, clean: bool, lost: tuple[str, ...]) -> None:
    root = group.root / "n0"
    await write_plain(root)
    alone = {"n0": group.peers["n0"]}
    await group.start("n0", peers=alone)
    sent = await group.fill(100)
    await group.stop("n0")
    for folder in lost:
        shutil.rmtree(root / folder)
    if lost or not clean:
        (root / "abort").touch()
    if lost:
        (root / "checkpoint").unlink()
    await group.start("n0", peers=alone)
    await group.leader()
    store = group.running["n0"].store
    check_old(store)
    assert [u.body for u in read_all(store)] == old_bodies() + sent


async def test_a_conversion_without_any_entry_can_be_repeated_and_left(group: Group) -> None:
    """The old files are closed, and a broker without DLedger may still continue them once the ledger is moved away."""
    root = group.root / "n0"
    await write_plain(root)
    for _ in range(2):
        store, ledger = open_ledger(root)
        check_old(store)
        assert (ledger.log.first_index, ledger.log.last_index, store.dispatch_behind) == (-1, -1, 0)
        store._finish()
    shutil.rmtree(root / "dledger-n0")
    store = plain_store(root)
    fill(store, 3)
    assert [u.body for u in read_all(store)] == [*old_bodies(), b"m0", b"m1", b"m2"]
    await store.close()


async def test_old_files_expire_first_then_those_of_the_ledger(group: Group) -> None:
    root = group.root / "n0"
    await write_plain(root)
    await group.start("n0", peers={"n0": group.peers["n0"]})
    await group.fill(400)
    running = group.running["n0"]
    store, ledger = running.store, running.files.log
    divide, mins = ledger.divide, []
    names = sorted(path.name for path in (root / "commitlog").iterdir())
    while (file := ledger.expendable()) is not None:
        store.retention._delete_first()
        await store.retention._clean_queues()
        mins.append(store.log_min)
        first = store.min_offset("orders", 0)
        assert store.physical_offset("orders", 0, first) >= store.log_min
        assert store.get("orders", 0, 0, 32).status is GetStatus.OFFSET_TOO_SMALL
        assert file.base < store.log_min
    assert mins == [SIZE * n for n in range(1, len(mins) + 1)]
    assert mins[len(names) - 1] == divide
    assert len(mins) > len(names)
    await until(lambda: not list((root / "commitlog").iterdir()))
    assert not (root / "dledger-n0" / "converted").exists()
    left = [u.body for u in read_all_from_min(store)]
    await group.stop("n0")
    await group.start("n0", peers={"n0": group.peers["n0"]})
    await group.leader()
    assert [u.body for u in read_all_from_min(group.running["n0"].store)] == left
    assert group.running["n0"].store.log_min == mins[-1]


def read_all_from_min(store: MessageStore) -> list[Any]:
    found = []
    for offset in range(store.min_offset("orders", 0), store.max_offset("orders", 0)):
        one = store.unit_at(store.physical_offset("orders", 0, offset))
        assert one is not None
        found.append(one)
    return found


# -- a store of Apache's -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_store_of_apaches_broker_continues_as_a_ledger(name: str, rebuilt: bool, tmp_path: Path) -> None:
    manifest = read_manifest(name)
    root = unpack(name, tmp_path)
    if rebuilt:
        shutil.rmtree(root / "consumequeue")
        shutil.rmtree(root / "index")
        (root / "abort").touch()
        (root / "checkpoint").unlink()
    for _ in range(2):
        store, ledger = open_ledger(root, commitlog_file_size=1 << 20, consumequeue_file_entries=100)
        assert ledger.log.divide == 524_288
        assert store.log_max == manifest["commitlog"]["maxOffset"]
        for message in manifest["messages"]:
            found = store.unit_at(message["commitLogOffset"])
            assert found is not None
            assert (found.topic.decode(), found.queue_id, found.queue_offset, found.body_crc) == (
                message["topic"],
                message["queueId"],
                message["queueOffset"],
                message["bodyCRC"],
            )
        served = json.loads((FIXTURES / f"{name}.served.json").read_text())
        for queue, (low, high) in served.items():
            topic, _, number = queue.rpartition("/")
            assert (store.min_offset(topic, int(number)), store.max_offset(topic, int(number))) == (low, high), queue
        store._finish()


# -- stopped on the way ------------------------------------------------------------------------------------------------


ROOT = Path("/store")


def memory_store() -> MemoryFiles:
    files = MemoryFiles(ManualClock())
    store = plain_store(ROOT, files)
    fill(store, OLD)
    store.flusher.begin()
    store.tick()
    return files.after_kill()


def test_a_conversion_stopped_at_any_call_is_completed_by_the_next_start() -> None:
    left = memory_store()
    whole = left.after_kill()
    store, ledger = open_ledger(ROOT, files=whole)
    divide = ledger.log.divide
    check_old(store)
    assert {"write", "sync", "map", "allocate"} <= {operation for operation, _ in whole.calls}
    for stop in range(len(whole.calls)):
        files = left.after_kill()
        files.crash_at = stop
        with pytest.raises(Crash):
            open_ledger(ROOT, files=files)
        for again in (files.after_kill(), files.after_power_cut(), files.after_torn_writes(stop)):
            store, ledger = open_ledger(ROOT, files=again)
            assert (ledger.log.divide, ledger.log.last_index) == (divide, -1)
            check_old(store)


async def test_a_ledger_without_old_files_and_without_a_checkpoint_is_not_taken_for_a_plain_log(group: Group) -> None:
    """As after a kill in the first seconds."""
    root, alone = group.root / "n0", {"n0": group.peers["n0"]}
    await group.start("n0", peers=alone)
    sent = await group.fill(100)
    await group.stop("n0")
    data = root / "dledger-n0" / "data"
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    (root / "dledger-n0" / "checkpoint").unlink()
    (root / "abort").touch()
    store, ledger = open_ledger(root)
    assert ledger.log.checked_end == 0
    assert ledger.log.last_index >= len(sent)
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before
    store._release()
    await group.start("n0", peers=alone)
    sent += await group.fill(10, "again")
    assert [u.body for u in read_all(group.running["n0"].store)] == sent
    assert not (root / "dledger-n0" / "converted").exists()


# -- refused -----------------------------------------------------------------------------------------------------------


async def test_plain_files_that_do_not_end_where_the_ledger_begins_are_refused(group: Group) -> None:
    root = group.root / "n0"
    await write_plain(root)
    await group.start("n0", peers={"n0": group.peers["n0"]})
    await group.fill(100)
    await group.stop("n0")
    files = sorted((root / "commitlog").iterdir())
    last = files[-1].read_bytes()
    files[-1].unlink()
    with pytest.raises(StoreDamaged, match="restore the files between"):
        open_ledger(root)
    files[-1].write_bytes(last)
    following = files[-1].with_name(f"{int(files[-1].name) + SIZE:020d}")
    following.write_bytes(bytes(SIZE))
    with pytest.raises(StoreDamaged, match="without DLedger has written"):
        open_ledger(root)
    following.unlink()
    store, _ = open_ledger(root)
    check_old(store)
    store._release()


async def test_a_broker_without_dledger_refuses_the_folder_of_a_member(group: Group, tmp_path: Path) -> None:
    root = group.root / "n0"
    await write_plain(root)
    open_ledger(root)[0]._finish()
    with pytest.raises(StoreDamaged, match="enableDLegerCommitLog=true"):
        Broker(small_options(tmp_path / "home", storePathRootDir=str(root)), Env())


def test_the_end_of_the_old_messages_is_found_again_without_the_note(tmp_path: Path) -> None:
    """Apache's conversion leaves none."""
    store = plain_store(tmp_path)
    fill(store, OLD)
    end = store.log_max
    store._finish()
    open_ledger(tmp_path)[0]._finish()
    note = tmp_path / "dledger-n0" / "converted"
    told = []
    for text in (note.read_text(), None, "plainEnd=7\n", "nonsense"):
        if text is None:
            note.unlink()
        else:
            note.write_text(text)
        plain = PlainPart(tmp_path / "commitlog", note, SystemFiles())
        files = plain.open(SIZE)
        plain.check(files, SIZE, divide_of(end))
        told.append((plain.end, plain.fingerprint))
        for file in files:
            file.close()
        assert note.read_text() == f"plainEnd={end}\n"
    assert len(set(told)) == 1
    assert told[0][0] == end


# -- groups ------------------------------------------------------------------------------------------------------------


async def copied(group: Group, *ids: str) -> None:
    """Give members the same old store, those of the others stay empty."""
    await write_plain(group.root / "n0")
    for id in ids:
        shutil.copytree(group.root / "n0", group.root / id)


async def old_and_new(group: Group, sent: list[bytes], *ids: str) -> None:
    for id in ids:
        store = group.running[id].store
        await until(lambda store=store: len(read_all(store)) == OLD + len(sent))  # type: ignore[misc]
        check_old(store)
        assert [u.body for u in read_all(store)] == old_bodies() + sent


async def test_members_with_the_same_old_store_serve_it_and_one_that_lost_its_disk_the_rest(group: Group) -> None:
    await copied(group, "n1", "n2")
    await group.start()
    sent = await group.fill(200)
    await old_and_new(group, sent, "n0", "n1", "n2")
    await group.stop("n1")
    shutil.rmtree(group.root / "n1")
    await group.start("n1")
    sent += await group.fill(50, "later")
    await old_and_new(group, sent, "n0", "n2")
    refilled = group.running["n1"].store
    await until(lambda: refilled.max_offset("orders", 0) == OLD + len(sent))
    assert refilled.log_min == group.running["n0"].files.log.divide
    assert refilled.min_offset("orders", 0) == OLD
    assert [u.body for u in read_all_from_min(refilled)] == sent
    result = refilled.get("orders", 0, 0, 32)
    assert (result.status, result.next_offset) == (GetStatus.OFFSET_TOO_SMALL, OLD)


async def test_an_empty_member_waits_for_those_with_old_messages_and_is_refilled(group: Group) -> None:
    await copied(group, "n1")
    await group.start("n2", "n0")
    waiting = group.running["n2"].member
    await until(lambda: "n0 has" in waiting.waiting and group.running["n0"].member.waiting)
    assert waiting.node is None
    await group.start("n1")
    sent = await group.fill(100)
    await old_and_new(group, sent, "n0", "n1")
    refilled = group.running["n2"].store
    await until(lambda: refilled.max_offset("orders", 0) == OLD + len(sent))
    assert [u.body for u in read_all_from_min(refilled)] == sent
    assert not waiting.waiting


async def test_a_member_with_other_old_messages_waits_and_changes_nothing(group: Group) -> None:
    await copied(group, "n1")
    await write_plain(group.root / "n2", OLD - 3)  # as a slave that lagged behind: the same start of the ledger
    await group.start()
    sent = await group.fill(100)
    await old_and_new(group, sent, "n0", "n1")
    other = group.running["n2"]
    assert other.files.log.divide == group.running["n0"].files.log.divide
    await until(lambda: "plain commitlogs differ" in other.member.waiting)
    assert other.member.node is None
    assert "plain commitlogs differ" in other.member.metadata("n0").ariane.outside  # type: ignore[union-attr]
    check_old(other.store, OLD - 3)


async def test_a_member_whose_old_messages_were_exchanged_is_led_by_nobody(group: Group) -> None:
    await copied(group, "n1", "n2")
    await group.start()
    sent = await group.fill(100)
    await group.stop("n2")
    other = group.root / "other"
    await write_plain(other, OLD - 3)
    last = sorted((group.root / "n2" / "commitlog").iterdir())[-1]
    store = plain_store(other)
    store.log.start_next()  # closes the file
    await store.close()
    shutil.copy(other / "commitlog" / last.name, last)
    await group.start("n2")
    await until(lambda: "plain commitlogs differ" in group.running["n2"].member.frozen)
    sent += await group.fill(20, "more")
    await old_and_new(group, sent, "n0", "n1")


async def test_a_member_with_old_messages_does_not_follow_a_ledger_that_begins_elsewhere(group: Group) -> None:
    await group.start("n1", "n2")
    sent = await group.fill(50)
    end = await write_plain(group.root / "n0")
    await group.start("n0")
    stray = group.running["n0"]
    await until(lambda: "does not begin at" in stray.member.frozen)
    assert str(divide_of(end)) in stray.member.frozen
    check_old(stray.store)
    assert (await group.leader()) is not stray
    for id in ("n1", "n2"):
        assert [u.body for u in read_all(group.running[id].store)] == sent


async def test_a_group_that_deleted_entries_does_not_wipe_the_old_messages_of_a_new_member(group: Group) -> None:
    await group.start("n1", "n2")
    await group.fill(400)
    await group.caught_up()
    for running in group.running.values():
        _delete_oldest(running)
    await write_plain(group.root / "n0")
    await group.start("n0")
    stray = group.running["n0"]
    await until(lambda: "does not begin at" in stray.member.frozen)
    check_old(stray.store)


async def test_a_converted_member_that_lagged_behind_the_retention_begins_again(group: Group) -> None:
    await copied(group, "n1", "n2")
    await group.start()
    await group.fill(20)
    await group.caught_up()
    await group.stop("n2")
    await group.fill(400, "later")
    await group.caught_up()
    for running in group.running.values():
        while running.files.log.divide:
            _delete_oldest(running)
        _delete_oldest(running)
        await running.store.retention._clean_queues()
    await group.start("n2")
    await group.caught_up()
    late, leader = group.running["n2"], await group.leader()
    assert late.files.log.divide == 0
    assert not list((group.root / "n2" / "commitlog").iterdir())
    whole, found = read_all_from_min(leader.store), read_all_from_min(late.store)
    assert [u.body for u in found] == [u.body for u in whole[-len(found) :]]
    await group.stop("n2")
    await group.start("n2")
    await group.caught_up()


def _delete_oldest(running: Running) -> None:
    assert running.files.log.expendable() is not None
    running.store.retention._delete_first()
