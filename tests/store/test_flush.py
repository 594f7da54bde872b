"""Durability: group commit, intervals, the transient pool, and what happens when the disk fails or is full."""

import asyncio
import errno
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ariane.env import Env, ManualClock
from ariane.store import MessageStore, PutStatus, StoreOptions
from ariane.testing.faults import MemoryFiles
from tests.store.units import fill, read_all, unit
from tests.store.waiting import eventually

ROOT = Path("/store")
LOG_FILE = "commitlog"


def options(**changes: Any) -> StoreOptions:
    small: dict[str, Any] = {
        "root": ROOT,
        "commitlog_file_size": 1 << 16,
        "consumequeue_file_entries": 1000,
        "index_slots": 100,
        "index_entries": 1000,
        "flush": "SYNC_FLUSH",
    }
    return StoreOptions(**small | changes)


@asynccontextmanager
async def running(files: MemoryFiles, clock: ManualClock, **changes: Any) -> AsyncIterator[MessageStore]:
    store = MessageStore(options(**changes), Env(clock=clock, files=files))
    store.open()
    store.start(asyncio.get_running_loop())
    yield store
    await store.close()


def syncs(files: MemoryFiles) -> int:
    return sum(1 for operation, path in files.calls if operation == "sync" and LOG_FILE in str(path))


def answers() -> tuple[list[bool], Callable[[bool], None]]:
    got: list[bool] = []
    return got, got.append


async def test_one_sync_serves_all_that_wait() -> None:
    files, clock = MemoryFiles(), ManualClock()
    got, done = answers()
    async with running(files, clock) as store:
        for n in range(500):
            store.when_flushed(store.append(unit(body=str(n).encode())).end_offset, done)
        await eventually(lambda: len(got) == 500)
        assert all(got)
        assert syncs(files) <= 20
        assert store.flushed_offset == store.log_max
    assert files.after_power_cut().exists(ROOT / LOG_FILE / "0".zfill(20))


async def test_the_messages_of_a_burst_share_one_flush() -> None:
    files = MemoryFiles()
    got, done = answers()
    async with running(files, ManualClock()) as store:
        store.hold()
        for n in range(5):
            store.when_flushed(store.append(unit(body=str(n).encode())).end_offset, done)
        assert (got, syncs(files), store.log_max) == ([], 0, 0)
        store.dispatch_now()
        await eventually(lambda: got == [True] * 5)
        assert syncs(files) == 1


async def test_what_is_flushed_already_is_answered_at_once() -> None:
    got, done = answers()
    async with running(MemoryFiles(), ManualClock()) as store:
        end = store.append(unit()).end_offset
        store.when_flushed(end, done)
        await eventually(lambda: got == [True])
        store.when_flushed(end, done)
        assert got == [True, True]


async def test_what_a_running_flush_covers_is_answered_when_it_ends() -> None:
    got, done = answers()
    async with running(MemoryFiles(), ManualClock()) as store:
        held = threading.Event()
        store._sync_worker.submit(lambda: held.wait(60) and None)
        end = store.append(unit()).end_offset
        store.when_flushed(end, done)
        store.when_flushed(end, done)  # the round of the first is on its way, and nothing comes after it
        held.set()
        await eventually(lambda: got == [True, True])


async def test_a_flush_across_two_files_makes_both_durable() -> None:
    files = MemoryFiles()
    got, done = answers()
    async with running(files, ManualClock(), commitlog_file_size=4096) as store:
        for n in range(60):
            store.when_flushed(store.append(unit(body=str(n).encode())).end_offset, done)
        await eventually(lambda: len(got) == 60)
    again = MessageStore(options(), Env(clock=ManualClock(), files=files.after_power_cut()))
    again.open()
    assert len(read_all(again)) == 60


async def test_who_waits_too_long_is_told_so() -> None:
    files, clock = MemoryFiles(), ManualClock()
    got, done = answers()
    async with running(files, clock, sync_flush_timeout=timedelta(seconds=5)) as store:
        hold = asyncio.Event()
        loop = asyncio.get_running_loop()
        held = asyncio.run_coroutine_threadsafe
        store._sync_worker.submit(lambda: held(hold.wait(), loop).result() and None)
        store.when_flushed(store.append(unit()).end_offset, done)
        await eventually(lambda: clock.sleepers >= 4)
        clock.advance(4.9)
        await asyncio.sleep(0)
        assert got == []
        clock.advance(0.2)
        await eventually(lambda: got == [False])
        hold.set()
        await eventually(lambda: store.flushed_offset == store.log_max)
        assert got == [False]


async def test_async_flush_waits_for_four_pages_or_ten_seconds() -> None:
    files, clock = MemoryFiles(), ManualClock()
    async with running(files, clock, flush="ASYNC_FLUSH") as store:
        await eventually(lambda: clock.sleepers >= 3)
        store.append(unit(body=b"x" * 5000))
        await step(clock, 0.5)
        assert store.flushed_offset == 0
        store.append(unit(body=b"x" * 13_000))
        await step(clock, 0.5)
        await eventually(lambda: store.flushed_offset == store.log_max)
        end = store.append(unit()).end_offset
        await step(clock, 8.0)
        assert store.flushed_offset < end
        await passing(clock, 0.5, lambda: store.flushed_offset == end)


async def step(clock: ManualClock, seconds: float) -> None:
    """Move the clock, and let what woke up run."""
    clock.advance(seconds)
    for _ in range(5):
        await asyncio.sleep(0)


async def passing(clock: ManualClock, seconds: float, condition: Callable[[], bool]) -> None:
    """Move the clock until something is so; work that is still in its thread sleeps through any one step."""

    async def moved() -> None:
        while not condition():
            await step(clock, seconds)
            await asyncio.sleep(0.002)

    await asyncio.wait_for(moved(), 60)


async def test_the_transient_pool_shows_messages_when_they_are_committed() -> None:
    clock = ManualClock()
    async with running(MemoryFiles(), clock, flush="ASYNC_FLUSH", transient_store_pool=True) as store:
        await eventually(lambda: clock.sleepers >= 4)
        result = store.append(unit(body=b"later"))
        store.append(unit(body=b"too"))
        store.dispatch_now()
        assert (result.status, store.log_max) == (PutStatus.OK, 0)
        await passing(clock, 0.2, lambda: store.log_max > 0)
        assert [u.body for u in read_all(store)] == [b"later", b"too"]


async def test_who_waits_for_bytes_of_the_transient_pool_is_not_told_before_they_are_durable() -> None:
    files, clock = MemoryFiles(), ManualClock()
    got, done = answers()
    async with running(files, clock, flush="ASYNC_FLUSH", transient_store_pool=True) as store:
        await eventually(lambda: clock.sleepers >= 4)
        end = store.append(unit(body=b"later")).end_offset
        store.when_flushed(end, done)
        await eventually(lambda: store.flusher._busy is False)
        assert got == []
        assert store.log.commit()
        store.flusher.begin()
        await eventually(lambda: got == [True])
        assert store.flushed_offset >= end


async def test_the_transient_pool_rolls_over_files() -> None:
    files, clock = MemoryFiles(), ManualClock()
    async with running(files, clock, flush="ASYNC_FLUSH", transient_store_pool=True, commitlog_file_size=4096) as store:
        fill(store, 100)
    again = MessageStore(options(), Env(clock=clock, files=files.after_power_cut()))
    assert again.open().clean
    assert len(read_all(again)) == 100


async def test_a_failed_sync_is_never_acknowledged_and_the_store_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    files, clock = MemoryFiles(), ManualClock()
    got, done = answers()
    async with running(files, clock) as store:
        await eventually(lambda: clock.sleepers >= 3)
        rule = files.fail("sync", errno.EIO, LOG_FILE)
        store.when_flushed(store.append(unit(body=b"doubtful")).end_offset, done)
        await eventually(lambda: got == [False])
        assert not store.writable
        assert store.append(unit()).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "the store takes no messages: the log could not be made durable" in caplog.text
        await step(clock, 0.5)
        assert not store.writable
        files.rules.remove(rule)
        await passing(clock, 0.5, lambda: store.writable)
        assert "the store takes messages again" in caplog.text
        store.when_flushed(store.append(unit(body=b"safe")).end_offset, done)
        await eventually(lambda: got == [False, True])
        left = files.after_power_cut()
    again = MessageStore(options(), Env(clock=clock, files=left))
    again.open()
    assert [u.body for u in read_all(again)] == [b"doubtful", b"safe"]


async def test_after_a_failed_sync_the_doubtful_bytes_are_written_again() -> None:
    files, clock = MemoryFiles(), ManualClock()
    got, done = answers()
    async with running(files, clock) as store:
        await eventually(lambda: clock.sleepers >= 3)
        files.fail("sync", errno.EIO, LOG_FILE, times=1)
        store.when_flushed(store.append(unit(body=b"a" * 9000)).end_offset, done)
        await eventually(lambda: got == [False])
        before = len(files.calls)
        await passing(clock, 0.5, lambda: store.writable)
        redone = [operation for operation, path in files.calls[before:] if LOG_FILE in str(path)]
        assert redone == ["write", "sync"]


async def test_no_room_for_the_next_log_file(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    files = MemoryFiles(clock, capacity=200_000)
    async with running(files, clock, commitlog_file_size=1 << 16, index_enabled=False) as store:
        await eventually(lambda: clock.sleepers >= 3)
        stored = 0
        while (result := store.append(unit(body=b"x" * 1000))).status is PutStatus.OK:
            stored += 1
        assert result.status is PutStatus.CREATE_FILE_FAILED
        assert store.append(unit()).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "no room for the next log file" in caplog.text
        await step(clock, 1.0)
        assert not store.writable
        files.capacity = 1 << 30
        await passing(clock, 1.0, lambda: store.writable)
        assert store.append(unit(body=b"again")).status is PutStatus.OK
        store.dispatch_now()
        assert len(read_all(store)) == stored + 1


async def test_queue_entries_that_find_no_room_are_kept_and_written_later() -> None:
    files, clock = MemoryFiles(), ManualClock()
    async with running(files, clock, index_enabled=False) as store:
        await eventually(lambda: clock.sleepers >= 3)
        rule = files.fail("write", errno.ENOSPC, "consumequeue")
        fill(store, 10)
        await passing(clock, 61.0, lambda: not store.writable)
        assert len(read_all(store)) == 10
        files.rules.remove(rule)
        await passing(clock, 61.0, lambda: store.writable)
        fill(store, 1)
    again = MessageStore(options(index_enabled=False), Env(clock=clock, files=files.after_power_cut()))
    assert again.open().clean
    assert len(read_all(again)) == 11


async def test_keys_that_find_no_room_are_indexed_later() -> None:
    files, clock = MemoryFiles(), ManualClock()
    async with running(files, clock) as store:
        await eventually(lambda: clock.sleepers >= 3)
        rule = files.fail("allocate", errno.ENOSPC, "index")
        store.append(unit(body=b"a", KEYS="one two"))
        await eventually(lambda: not store.writable)
        for _ in range(3):
            store.tick()
        assert files.list(store.layout.index) == []  # tries leave no files behind, on the disk or mapped
        files.rules.remove(rule)
        await passing(clock, 1.0, lambda: store.writable)
        for key in ("one", "two"):
            assert len(store.query("orders", key, 32, 0, 1 << 60).slices) == 1


async def test_a_store_that_cannot_be_flushed_is_not_called_clean(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    files, clock = MemoryFiles(), ManualClock()
    async with running(files, clock) as store:
        files.fail("sync", errno.EIO, LOG_FILE)
        store.append(unit())
    assert "was not closed cleanly" in caplog.text
    again = MessageStore(options(), Env(clock=clock, files=files.after_kill()))
    assert not again.open().clean


async def test_what_is_told_as_flushed_after_a_kill_survives_a_power_cut() -> None:
    files, clock = MemoryFiles(), ManualClock()
    killed = MessageStore(options(flush="ASYNC_FLUSH"), Env(clock=clock, files=files))
    killed.open()
    while killed.log_max <= killed.log.file_size + 1000:  # the file that is full was not synced either
        killed.append(unit(body=bytes(1000)))
    files = files.after_kill()
    async with running(files, clock) as store:
        flushed, there = store.flushed_offset, read_all(store)
        assert flushed == killed.log_max
        cut = files.after_power_cut()
    after = MessageStore(options(), Env(clock=clock, files=cut))
    after.open()
    assert after.log_max >= flushed
    assert len(read_all(after)) == len(there)
