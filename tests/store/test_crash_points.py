"""A run is stopped at each write, sync and rename in turn: the restart has every acknowledged message."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ariane.env import Env, ManualClock
from ariane.protocol.units import decode_unit
from ariane.store import MessageStore, StoreOptions
from ariane.testing.faults import Crash, MemoryFiles
from tests.store.units import read_all, unit

ROOT = Path("/store")
MESSAGES = 100


def open_store(files: MemoryFiles, clock: ManualClock) -> MessageStore:
    options = StoreOptions(
        root=ROOT,
        commitlog_file_size=8192,
        consumequeue_file_entries=20,
        index_slots=40,
        index_entries=60,
        flush="SYNC_FLUSH",
    )
    store = MessageStore(options, Env(clock=clock, files=files))
    store.open()
    return store


def run(files: MemoryFiles, acknowledged: list[bytes], *, close: bool = True) -> None:
    """Store messages, with queue flushes and checkpoints in between, until the file system says stop."""
    clock = ManualClock()
    store = open_store(files, clock)
    for n in range(MESSAGES):
        clock.advance(1.5)
        body = f"m{n}".encode()
        result = store.append(unit(body=body, queue_id=n % 2, KEYS=f"k{n}", UNIQ_KEY=f"U{n}"))
        store.when_flushed(result.end_offset, partial(_note, acknowledged, body))
        store.dispatch_now()
        if n % 7 == 6:
            store.tick()
    if close:
        asyncio.run(store.close())


def _note(acknowledged: list[bytes], body: bytes, ok: bool) -> None:
    if ok:
        acknowledged.append(body)


def reopen(files: MemoryFiles) -> MessageStore:
    clock = ManualClock()
    clock.advance(10_000)
    return open_store(files, clock)


def check(files: MemoryFiles, acknowledged: list[bytes]) -> None:
    """Everything acknowledged is there in order, every queue entry and every key leads to its message."""
    store = reopen(files)
    found = {queue: [u.body for u in read_all(store, queue_id=queue)] for queue in (0, 1)}
    count = len(found[0]) + len(found[1])
    assert count >= len(acknowledged)
    for queue in (0, 1):
        assert found[queue] == [f"m{n}".encode() for n in range(queue, count, 2)]
    for n in range(count):
        hits = [decode_unit(part).body for part in store.query("orders", f"k{n}", 32, 0, 1 << 60).slices]
        assert hits == [f"m{n}".encode()]
    result = store.append(unit(body=b"new", queue_id=0))
    store.dispatch_now()
    assert read_all(store)[-1].body == b"new"
    assert result.queue_offset == len(found[0])


def survivors(files: MemoryFiles) -> list[tuple[str, MemoryFiles]]:
    return [
        ("kill", files.after_kill()),
        ("power cut", files.after_power_cut()),
        ("torn", files.after_torn_writes(len(files.calls))),
    ]


@pytest.mark.slow
def test_every_acknowledged_message_survives_a_stop_at_every_call() -> None:
    files = MemoryFiles(ManualClock())
    acknowledged: list[bytes] = []

    def stop_here() -> None:
        for kind, left in survivors(files):
            try:
                check(left, acknowledged)
            except BaseException as error:
                error.add_note(f"stopped after call {len(files.calls)}, {files.calls[-1:]}, then {kind}")
                raise

    files.before_call = stop_here
    run(files, acknowledged)
    assert len(acknowledged) == MESSAGES
    assert len(files.calls) > 3 * MESSAGES
    kinds = {operation for operation, _ in files.calls}
    assert {"write", "sync", "rename", "sync_folder", "map", "allocate"} <= kinds


def test_a_second_stop_during_recovery_loses_nothing_either() -> None:
    first = MemoryFiles(ManualClock())
    acknowledged: list[bytes] = []
    run(first, acknowledged, close=False)
    recover_at_every_call(lambda: first.after_torn_writes(1), acknowledged)
    recover_at_every_call(first.after_kill, acknowledged)


def recover_at_every_call(left: Callable[[], MemoryFiles], acknowledged: list[bytes]) -> None:
    whole = left()
    reopen(whole)
    for stop in range(len(whole.calls)):
        files = left()
        files.crash_at = stop
        with pytest.raises(Crash):
            reopen(files)
        for _, again in survivors(files):
            check(again, acknowledged)
