"""Coming back: what is read, what is rebuilt, what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ariane.env import Env, ManualClock
from ariane.store import MessageStore, PutStatus, StoreDamaged, StoreOptions, queue_flush
from ariane.store.checkpoint import Checkpoint
from ariane.store.recovery import recovery
from ariane.testing.faults import MemoryFiles
from tests.store.units import fill, read_all, unit

ROOT = Path("/store")


def make(files: MemoryFiles, clock: ManualClock | None = None, **changes: Any) -> MessageStore:
    small: dict[str, Any] = {
        "root": ROOT,
        "commitlog_file_size": 1 << 16,
        "consumequeue_file_entries": 50,
        "index_slots": 50,
        "index_entries": 300,
    }
    return MessageStore(StoreOptions(**small | changes), Env(clock=clock or ManualClock(), files=files))


def opened(files: MemoryFiles, clock: ManualClock | None = None, **changes: Any) -> MessageStore:
    store = make(files, clock, **changes)
    store.open()
    return store


async def test_a_clean_stop_leaves_no_mark_and_needs_no_dispatch() -> None:
    files = MemoryFiles()
    store = opened(files)
    fill(store, 300, queues=3)
    assert files.exists(ROOT / "abort")
    await store.close()
    assert not files.exists(ROOT / "abort")
    again = make(files.after_power_cut())
    report = again.open()
    assert (report.clean, report.dispatched, report.cut, report.queues) == (True, 0, 0, 3)
    assert len(read_all(again)) == 100
    assert again.append(unit()).queue_offset == 100


async def test_recovery_after_a_crash_syncs_all_cut_queues_at_once() -> None:
    files = MemoryFiles()
    store = opened(files)
    fill(store, 120, queues=40)
    await store.close()
    left = files.after_kill()
    left.replace(ROOT / "abort", b"")
    left.remove(ROOT / "checkpoint")
    left.clear(ROOT / "commitlog" / f"{0:020}", store.log_max // 2)
    before = len(left.calls)
    assert not make(left).open().clean
    called = [operation for operation, path in left.calls[before:] if "consumequeue" in str(path)]
    first = called.index("clear")
    assert called[first : first + 41] == ["clear"] * 40 + ["sync_all"]


async def test_after_a_clean_stop_only_the_end_of_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_NEAR_END", 4096)
    files = MemoryFiles()
    store = opened(files)
    fill(store, 400)
    await store.close()
    again = make(files)
    assert again.open().scanned < 40
    assert len(read_all(again)) == 400


def test_after_a_crash_reading_starts_at_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_NEAR_END", 1024)
    monkeypatch.setattr(recovery, "_NEAR_ENOUGH", 512)
    clock = ManualClock()
    files = MemoryFiles(clock)
    store = opened(files, clock)
    for n in range(400):
        store.append(unit(body=f"m{n}".encode(), KEYS=f"k{n}"))
        clock.advance(1.0)
        store.dispatch_now()
        if n == 300:
            store.flusher.begin()
            store._queue_flusher.flush(thorough=True)
    again = make(files.after_kill())
    report = again.open()
    assert 100 < report.scanned < 115
    assert [u.body for u in read_all(again)] == [f"m{n}".encode() for n in range(400)]
    for n in range(0, 400, 7):
        assert len(again.query("orders", f"k{n}", 32, 0, 1 << 60).slices) == 1


@pytest.mark.parametrize("room", range(0, 60 * 4096, 3 * 4096))
@pytest.mark.parametrize("crash", ["after_kill", "after_power_cut"])
def test_a_store_starts_on_a_full_disk_and_completes_its_queues_when_there_is_room(room: int, crash: str) -> None:
    small: dict[str, Any] = {"consumequeue_file_entries": 4, "index_slots": 10, "index_entries": 30}
    before = opened(MemoryFiles(), **small)
    for number in range(120):
        before.append(unit(f"topic-{number % 10}", queue_id=number % 4, body=b"%d" % number, KEYS=f"k{number}"))
    before.dispatch_now()
    before.flusher.begin()
    assert isinstance(before.env.files, MemoryFiles)
    files = getattr(before.env.files, crash)()
    files.capacity = files._used() + room
    store = opened(files, **small)
    found = sum(len(read_all(store, f"topic-{topic}", queue)) for topic in range(10) for queue in range(4))
    assert found == 120
    files.capacity = 1 << 60
    store.retention.check_disk()
    for _ in range(3):
        store.tick()
    store._queue_flusher.flush(thorough=True)
    assert store.append(unit("topic-0")).status is PutStatus.OK
    assert all(store.query(f"topic-{n % 10}", f"k{n}", 9, 0, 1 << 60).slices for n in range(120))
    asyncio.run(store.close())
    assert opened(files.after_power_cut(), **small).health.text == ""


def test_without_a_checkpoint_all_is_read_and_built_anew() -> None:
    files = MemoryFiles()
    store = opened(files)
    fill(store, 300)
    left = files.after_kill()
    left.remove(ROOT / "checkpoint")
    left.remove_folder(ROOT / "consumequeue")
    left.remove_folder(ROOT / "index")
    again = make(left)
    assert again.open().dispatched == 300
    assert len(read_all(again)) == 300


@pytest.mark.parametrize("jump", [-30.0, -30_000.0])
def test_a_clock_that_goes_back_hides_nothing_from_recovery(jump: float) -> None:
    clock = ManualClock()
    files = MemoryFiles(clock)
    store = opened(files, clock, commitlog_file_size=8192)
    for n in range(100):
        store.append(unit(body=f"m{n}".encode()))
        clock.advance(1.0)
    store.dispatch_now()
    store.flusher.begin()
    store._queue_flusher.flush(thorough=True)
    clock.advance(jump)
    for n in range(100, 200):
        store.append(unit(body=f"m{n}".encode()))
        clock.advance(0.01)
    store.dispatch_now()
    again = opened(files.after_kill())
    assert [u.body for u in read_all(again)] == [f"m{n}".encode() for n in range(200)]


def test_the_checkpoint_never_says_more_than_is_durable() -> None:
    clock = ManualClock()
    files = MemoryFiles(clock)
    store = opened(files, clock)
    start = clock.now_ms()
    fill(store, 10)
    store._queue_flusher.flush(thorough=True)
    assert Checkpoint.load(files, ROOT / "checkpoint") == Checkpoint(0, start, 0)
    store.flusher.begin()
    clock.advance(5)
    fill(store, 10)
    store._queue_flusher.flush(thorough=True)
    assert Checkpoint.load(files, ROOT / "checkpoint") == Checkpoint(start, start + 5000, 0)


def test_a_gap_in_the_log_stops_the_start_and_changes_nothing() -> None:
    files = MemoryFiles()
    store = opened(files, commitlog_file_size=4096)
    fill(store, 200)
    left = files.after_kill()
    left.remove(ROOT / "commitlog" / "8192".zfill(20))
    before = {name: left.read(ROOT / "commitlog" / name) for name in left.list(ROOT / "commitlog")}
    broken = make(left)
    with pytest.raises(StoreDamaged, match="gap between"):
        broken.open()
    assert {name: left.read(ROOT / "commitlog" / name) for name in left.list(ROOT / "commitlog")} == before
    with pytest.raises(StoreDamaged):  # and not StoreLocked: the lock was let go
        make(left).open()


def test_a_log_file_that_a_crash_left_short_is_completed() -> None:
    files = MemoryFiles()
    store = opened(files, commitlog_file_size=4096)
    fill(store, 100)
    left = files.after_kill()
    last = left.list(ROOT / "commitlog")[-1]
    number = int(last) + 4096
    left.open(ROOT / "commitlog" / str(number).zfill(20), 0)
    again = opened(left)
    assert len(read_all(again)) == 100
    fill(again, 100)
    assert {left.size(ROOT / "commitlog" / name) for name in left.list(ROOT / "commitlog")} == {4096}


def test_queues_are_dropped_when_the_log_is_gone() -> None:
    files = MemoryFiles()
    store = opened(files)
    fill(store, 30)
    store._queue_flusher.flush(thorough=True)
    left = files.after_kill()
    left.remove_folder(ROOT / "commitlog")
    again = make(left)
    report = again.open()
    assert "its queues are removed" in report.notes[0]
    fill(again, 1)
    assert len(read_all(again)) == 1
    assert len(again.query("orders", "k0", 32, 0, 1 << 60).slices) == 1


def test_other_sizes_in_the_configuration_change_nothing() -> None:
    files = MemoryFiles()
    store = opened(files)
    fill(store, 300)
    store._queue_flusher.flush(thorough=True)
    left = files.after_kill()
    again = make(left, commitlog_file_size=1 << 20, consumequeue_file_entries=7)
    notes = again.open().notes
    assert any("log files of size 65536" in note for note in notes)
    assert any("entries of queue files of size 50" in note for note in notes)
    assert len(read_all(again)) == 300


async def test_a_store_can_be_closed_and_opened_many_times() -> None:
    files = MemoryFiles()
    for n in range(10):
        store = opened(files)
        store.start(asyncio.get_running_loop())
        fill(store, 10)
        assert len(read_all(store)) == 10 * (n + 1)
        await store.close()


def test_a_checkpoint_is_made_when_much_was_stored_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_flush, "_CHECKPOINT_EVERY", 10_000)
    clock = ManualClock()
    files = MemoryFiles(clock)
    store = opened(files, clock)
    fill(store, 30)
    store.tick()
    assert Checkpoint.load(files, ROOT / "checkpoint").queue_time == 0
    fill(store, 100)
    store.tick()
    assert Checkpoint.load(files, ROOT / "checkpoint").queue_time == clock.now_ms()
