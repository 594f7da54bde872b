"""Backups of a store that a process writes to: all that was acknowledged before is in them, and they are whole."""

import asyncio
import os
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ariane.cli.store import app
from ariane.env import Env, SystemFiles
from ariane.store import MessageStore, StoreOptions
from ariane.store.layout import Layout, log_names
from ariane.store.offline import BackupError, StoredLog, back_up, read_manifest, restore, verify
from tests.store.units import fill, read_all
from tests.store.writing import Book, write_until

FILES = SystemFiles()
ROUNDS = 4


def no_wait(seconds: float) -> None:
    """Nothing writes to the store of this test."""


def layout(root: Path) -> Layout:
    return Layout(root, root / "commitlog")


def small(root: Path) -> StoreOptions:
    return StoreOptions(
        root=root, commitlog_file_size=16384, consumequeue_file_entries=50, index_slots=100, index_entries=200
    )


def filled(root: Path, count: int = 400) -> None:
    store = MessageStore(small(root), Env())
    store.open()
    fill(store, count)
    asyncio.run(store.close())


def bodies(root: Path) -> list[bytes]:
    """Open a store as a broker does, and read all of it."""
    store = MessageStore(small(root), Env())
    store.open()
    found = [unit.body for unit in read_all(store)]
    asyncio.run(store.close())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_backup_taken_while_a_process_writes_has_all_that_was_acknowledged(flush: str, tmp_path: Path) -> None:
    source, acknowledged = tmp_path / "store", []
    for number in range(ROUNDS):
        target = tmp_path / f"backup-{number}"

        def take(process: BaseProcess, target: Path = target) -> None:
            back_up(Env(), layout(source), target, sleep=time.sleep)
            process.kill()

        acknowledged += write_until(source, flush, 400 + 50 * number, number * 100_000, take, with_rest=False)
        assert verify(FILES, layout(target), 1000, 500).problems == []
        made = read_manifest(FILES, target)
        assert made.linked or number == 0  # later rounds begin with several full files
        restored = tmp_path / f"restored-{number}"
        restore(FILES, target, layout(restored))
        book = Book()
        book.check(restored, flush, acknowledged)
        assert book.lost == set()
        assert verify(FILES, layout(restored), 1000, 500).problems == []


def test_full_files_share_their_blocks_and_the_newest_does_not(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    made = back_up(Env(), layout(tmp_path / "store"), tmp_path / "backup", sleep=no_wait)
    names = log_names(FILES, tmp_path / "store" / "commitlog")
    shared = [
        os.path.samefile(tmp_path / "store" / "commitlog" / name, tmp_path / "backup" / "commitlog" / name)
        for name in made.log_files
    ]
    assert len(names) >= len(made.log_files) > 3
    assert shared == [True] * (len(shared) - 1) + [False]
    filled(tmp_path / "store", 100)  # the store goes on, with its newest file first
    restore(FILES, tmp_path / "backup", layout(tmp_path / "restored"))
    assert bodies(tmp_path / "restored") == [b"m%d" % n for n in range(400)]
    assert not any(os.stat(path).st_nlink > 1 for path in (tmp_path / "restored").rglob("*") if path.is_file())


def test_without_links_nothing_is_shared(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    made = back_up(Env(), layout(tmp_path / "store"), tmp_path / "backup", sleep=no_wait, link=False)
    assert made.linked == {}
    restore(FILES, tmp_path / "backup", layout(tmp_path / "restored"))
    assert len(bodies(tmp_path / "restored")) == 400


def test_a_log_that_is_cut_after_the_backup_is_not_restored_in_part(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    back_up(Env(), layout(tmp_path / "store"), tmp_path / "backup", sleep=no_wait)
    store = MessageStore(small(tmp_path / "store"), Env())
    store.open()
    [*_, first] = [unit.physical_offset for unit in read_all(store)[:20]]
    store.truncate(first)  # as a slave does that finds its master's log different
    asyncio.run(store.close())
    with pytest.raises(BackupError, match="changed after the backup"):
        restore(FILES, tmp_path / "backup", layout(tmp_path / "restored"))
    assert not (tmp_path / "restored").exists()


def test_a_message_that_is_half_in_the_log_is_not_in_the_backup(tmp_path: Path) -> None:
    """The copy of a message into the mapped file is seen in part; its properties have no checksum."""
    filled(tmp_path / "store", 30)
    log = StoredLog(FILES, layout(tmp_path / "store"))
    units = list(log.walk())
    last, path = units[-1], tmp_path / "store" / "commitlog" / log_names(FILES, tmp_path / "store" / "commitlog")[0]
    whole = path.read_bytes()
    end = last.physical_offset + last.size
    pauses = []

    def write(at: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    write(end - 10, bytes(10))  # the last properties are not there yet

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            write(end - 10, whole[end - 10 : end])

    made = back_up(Env(), layout(tmp_path / "store"), tmp_path / "backup", sleep=sleep)
    assert len(pauses) > 1
    assert made.log_end == end
    assert (tmp_path / "backup" / "commitlog" / path.name).read_bytes() == whole


def test_a_backup_is_not_written_over_and_a_failed_one_leaves_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "store", 10)
    back_up(Env(), layout(tmp_path / "store"), tmp_path / "backup", sleep=no_wait)
    with pytest.raises(BackupError, match="exists already"):
        back_up(Env(), layout(tmp_path / "store"), tmp_path / "backup", sleep=no_wait)

    def broken(seconds: float) -> None:
        raise OSError(28, "no space left")

    with pytest.raises(OSError, match="no space"):
        back_up(Env(), layout(tmp_path / "store"), tmp_path / "other", sleep=broken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "store"]
    (tmp_path / "store" / "dledger-n0").mkdir()
    with pytest.raises(BackupError, match="DLedger"):
        back_up(Env(), layout(tmp_path / "store"), tmp_path / "other", sleep=no_wait)


def test_what_is_no_whole_backup_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    with pytest.raises(BackupError, match="no backup"):
        restore(FILES, tmp_path / "store", layout(tmp_path / "restored"))
    made = back_up(Env(), layout(tmp_path / "store"), tmp_path / "backup", sleep=no_wait)
    with pytest.raises(BackupError, match="not empty"):
        restore(FILES, tmp_path / "backup", layout(tmp_path / "store"))
    (tmp_path / "backup" / "commitlog" / made.log_files[1]).unlink()
    with pytest.raises(BackupError, match="not whole"):
        restore(FILES, tmp_path / "backup", layout(tmp_path / "restored"))


def test_the_commands_back_up_and_restore_and_tell_damage(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    run = CliRunner()
    source, backup, restored = (str(tmp_path / name) for name in ("store", "backup", "restored"))
    done = run.invoke(app, ["backup", source, backup])
    assert done.exit_code == 0, done.output
    assert "files linked" in done.output
    done = run.invoke(app, ["restore", backup, restored])
    assert done.exit_code == 0, done.output
    assert len(bodies(tmp_path / "restored")) == 400
    copied = run.invoke(app, ["backup", source, f"{backup}-2", "--copy"])
    assert copied.exit_code == 0, copied.output
    log = sorted((tmp_path / "backup-2" / "commitlog").iterdir())[1]
    data = bytearray(log.read_bytes())
    data[4] ^= 255  # the magic of its first message
    log.write_bytes(data)
    damaged = run.invoke(app, ["restore", f"{backup}-2", f"{restored}-2"])
    assert damaged.exit_code == 1
    assert "damaged from" in damaged.output
