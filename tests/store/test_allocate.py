"""Log files are made ahead of need, and those that are not needed go again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ariane.env import Env, ManualClock, SystemFiles
from ariane.store import MessageStore, StoreOptions
from ariane.store.log.allocate import STRETCH, Allocator
from ariane.testing.faults import MemoryFiles
from tests.store.units import read_all, unit
from tests.store.waiting import eventually

ROOT = Path("/store")
SIZE = 1 << 16


def started(files: MemoryFiles, **changes: Any) -> MessageStore:
    options = StoreOptions(**{"root": ROOT, "commitlog_file_size": SIZE, "index_enabled": False} | changes)
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


async def test_the_beginning_of_the_next_file_is_brought_into_memory_when_it_is_made() -> None:
    files = MemoryFiles()
    store = started(files)
    store.append(unit(body=b"x" * (SIZE // 2)))
    store.append(unit(body=b"x" * (SIZE // 4)))
    await eventually(lambda: any(call == ("populate", ROOT / "commitlog" / f"{SIZE:020d}") for call in files.calls))
    await store.close()


@pytest.mark.parametrize("raw", [False, True])
async def test_a_stretch_ahead_of_the_writer_is_brought_into_memory(monkeypatch: pytest.MonkeyPatch, raw: bool) -> None:
    ordered: list[tuple[int, int]] = []  # the end of the log, and what was ordered
    monkeypatch.setattr(Allocator, "warm_ahead", lambda _, file, at: ordered.append((store.log.stored, at)))
    store = started(MemoryFiles(), commitlog_file_size=5 * STRETCH, max_message_size=STRETCH)
    piece = STRETCH // 2
    for number in range(9):
        if raw:
            assert store.log.append_raw(number * piece, b"x" * piece)
        else:
            store.append(unit(body=b"x" * (piece - 200)))
    assert [at for _, at in ordered] == [STRETCH, 2 * STRETCH, 3 * STRETCH, 4 * STRETCH]
    assert all(end < at + STRETCH for end, at in ordered)  # one stretch is always ready
    await store.close()


def test_pages_of_a_real_file_are_brought_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = SystemFiles().map(path, 1 << 20, allocate=True)
    file.write(0, b"written")
    file.populate(0, 2 << 20)  # ends with the file
    assert file.read(0, 8) == b"written\0"
    path.unlink()
    file.populate(0, 1 << 20)  # removed meanwhile: nothing to bring
    assert file.close()


async def test_a_real_file_has_its_blocks_when_it_is_made(tmp_path: Path) -> None:
    options = StoreOptions(root=tmp_path, commitlog_file_size=1 << 20, index_enabled=False)
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
