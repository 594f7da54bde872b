"""Log files are made ahead of need, and those that are not needed go again."""

import asyncio
from pathlib import Path
from typing import Any

from ariane.env import Env, ManualClock
from ariane.store import MessageStore, StoreOptions
from ariane.testing.faults import MemoryFiles
from tests.store.units import read_all, unit
from tests.store.waiting import eventually

ROOT = Path("/store")
SIZE = 1 << 16


def started(files: MemoryFiles, **changes: Any) -> MessageStore:
    options = StoreOptions(root=ROOT, commitlog_file_size=SIZE, index_enabled=False, **changes)
    store = MessageStore(options, Env(clock=ManualClock(), files=files))
    store.open()
    store.start(asyncio.get_running_loop())
    return store


def log_files(files: MemoryFiles) -> list[int]:
    return [int(name) for name in files.list(ROOT / "commitlog")]


async def test_the_next_file_is_made_when_three_quarters_are_full() -> None:
    files = MemoryFiles()
    store = started(files)
    store.append(unit(body=b"x" * (SIZE // 2)))
    assert log_files(files) == [0]
    store.append(unit(body=b"x" * (SIZE // 4)))
    await eventually(lambda: log_files(files) == [0, SIZE])
    made = len([call for call in files.calls if call[0] == "map"])
    assert store.append(unit(body=b"x" * (SIZE // 2))).physical_offset == SIZE
    assert len([call for call in files.calls if call[0] == "map"]) == made
    await store.close()


async def test_a_file_made_ahead_and_not_used_goes_when_the_store_closes() -> None:
    files = MemoryFiles()
    store = started(files)
    store.append(unit(body=b"x" * (SIZE // 2)))
    store.append(unit(body=b"x" * (SIZE // 4)))
    await eventually(lambda: log_files(files) == [0, SIZE])
    await store.close()
    assert log_files(files) == [0]


async def test_a_file_made_ahead_is_no_message_after_a_kill() -> None:
    files = MemoryFiles()
    store = started(files)
    store.append(unit(body=b"x" * (SIZE // 2)))
    store.append(unit(body=b"x" * (SIZE // 4)))
    await eventually(lambda: log_files(files) == [0, SIZE])
    again = MessageStore(store.options, Env(clock=ManualClock(), files=files.after_kill()))
    assert again.open().log_max == store.log_max
    assert len(read_all(again)) == 2
    await store.close()


async def test_files_are_warmed_when_asked_for() -> None:
    files = MemoryFiles()
    store = started(files, warm_files=True)
    store.append(unit(body=b"x" * (SIZE // 2)))
    store.append(unit(body=b"x" * (SIZE // 4)))
    await eventually(lambda: any(call == ("populate", ROOT / "commitlog" / f"{SIZE:020d}") for call in files.calls))
    await store.close()


async def test_a_real_file_has_its_blocks_when_it_is_made(tmp_path: Path) -> None:
    options = StoreOptions(root=tmp_path, commitlog_file_size=1 << 20, index_enabled=False, warm_files=True)
    store = MessageStore(options, Env())
    store.open()
    store.start(asyncio.get_running_loop())
    for _ in range(4):
        store.append(unit(body=b"x" * 200_000))
    folder = tmp_path / "commitlog"
    await eventually(lambda: [path.stat().st_size for path in folder.iterdir()] == [1 << 20] * 2)
    for path in folder.iterdir():
        assert path.stat().st_blocks * 512 >= 1 << 20
    queue_files = list((tmp_path / "consumequeue").rglob("0" * 20))
    assert all(path.stat().st_blocks * 512 < 100_000 for path in queue_files)
    await store.close()
