"""One store folder, one broker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ariane.env import Env
from ariane.store import MessageStore, StoreLocked, StoreOptions

OPEN = """
import sys
from pathlib import Path
from ariane.env import Env
from ariane.store import MessageStore, StoreLocked, StoreOptions
try:
    MessageStore(StoreOptions(root=Path(sys.argv[1]), commitlog_file_size=65536, index_enabled=False), Env()).open()
except StoreLocked as error:
    print(error)
"""
LOCK_ONE_BYTE = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX, 1)
print("locked", flush=True)
input()
"""


def small(root: Path) -> MessageStore:
    return MessageStore(StoreOptions(root=root, commitlog_file_size=1 << 16, index_enabled=False), Env())


def open_elsewhere(root: Path) -> str:
    """What another process says that opens the store."""
    return subprocess.run([sys.executable, "-c", OPEN, str(root)], capture_output=True, text=True, check=True).stdout


async def test_another_process_is_told_who_holds_the_store(tmp_path: Path) -> None:
    store = small(tmp_path)
    store.open()
    said = open_elsewhere(tmp_path)
    assert f"held by process {os.getpid()} on " in said
    assert str(tmp_path) in said
    await store.close()
    assert open_elsewhere(tmp_path) == ""


async def test_a_second_store_in_this_process_is_refused_too(tmp_path: Path) -> None:
    store = small(tmp_path)
    store.open()
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
        small(tmp_path).open()
    await store.close()
    again = small(tmp_path)
    again.open()
    await again.close()


async def test_the_lock_file_begins_as_apaches_does(tmp_path: Path) -> None:
    store = small(tmp_path)
    store.open()
    assert (tmp_path / "lock").read_text().startswith("lock")
    await store.close()


def test_a_lock_left_by_apache_names_no_process(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("lock")
    command = [sys.executable, "-c", LOCK_ONE_BYTE, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as apache:
        assert apache.stdout is not None
        apache.stdout.readline()
        with pytest.raises(StoreLocked, match="held by another broker"):
            small(tmp_path).open()
        apache.communicate(b"\n")
