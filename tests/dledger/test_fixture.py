"""A ledger that Apache's node wrote opens here and serves what its manifest says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ariane.dledger.storage.files import LedgerFiles, ledger_folder
from ariane.env import Env
from ariane.raft import HardState, Membership
from ariane.store import MessageStore, StoreOptions
from tests.recorded import read_manifest, unpack

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return read_manifest("dledger-clean")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack("dledger-clean", tmp_path)


def open_ledger(root: Path) -> tuple[MessageStore, LedgerFiles]:
    env = Env()
    ledger = LedgerFiles(ledger_folder(root, "n2"), env.files)
    options = StoreOptions(
        root=root,
        commitlog=ledger.folder / "data",
        commitlog_file_size=262_144,
        consumequeue_file_entries=100,
        index_slots=500,
        index_entries=400,
    )
    store = MessageStore(options, env, ledger.make_log)
    store.open()
    return store, ledger


def check(store: MessageStore, ledger: LedgerFiles, manifest: dict[str, Any]) -> None:
    assert (ledger.log.first_index, ledger.log.last_index) == (0, manifest["ledgerEndIndex"])
    assert store.log_max == manifest["endOffset"]
    for message in manifest["messages"]:
        entry = ledger.entry(message["index"])
        assert (entry.term, entry.position, entry.size) == (message["term"], message["pos"], message["storeSize"] + 48)
        found = store.unit_at(message["commitLogOffset"])
        assert found is not None
        assert (found.topic.decode(), found.queue_id, found.queue_offset) == (
            message["topic"],
            message["queueId"],
            message["queueOffset"],
        )
    for name, entries in manifest["consumequeue"].items():
        topic, _, queue = name.rpartition("/")
        first, last = store.min_offset(topic, int(queue)), store.max_offset(topic, int(queue))
        found_entries = [store.queue_entries(topic, int(queue), offset, 1)[0] for offset in range(first, last)]
        assert [list(entry) for entry in found_entries] == entries, name


def test_the_ledger_of_apaches_node_is_served_as_its_manifest_says(root: Path, manifest: dict[str, Any]) -> None:
    store, ledger = open_ledger(root)
    check(store, ledger, manifest)
    assert ledger.hard_state() == HardState(2, "n2")
    raft = ledger.raft_log(Membership(frozenset({"n0", "n1", "n2"})), 100)
    assert (raft.last_index, raft.last_term, raft.commit_index) == (734, 2, 734)
    assert raft.term(634) == 1
    served = json.loads((FIXTURES / "dledger-clean.served.json").read_text())
    assert served
    store._release()


@pytest.mark.parametrize("lost", ["index", "../consumequeue", "../index"])
def test_what_can_be_rebuilt_is_rebuilt(root: Path, manifest: dict[str, Any], lost: str) -> None:
    shutil.rmtree(root / "dledger-n2" / lost)
    (root / "abort").touch()
    store, ledger = open_ledger(root)
    check(store, ledger, manifest)
    store._release()


def test_a_lost_term_file_makes_the_member_abstain(root: Path) -> None:
    (root / "dledger-n2" / "currterm").unlink()
    store, ledger = open_ledger(root)
    assert ledger.hard_state() == HardState(abstaining=True)
    store._release()


def test_lost_committed_entries_make_the_member_abstain(root: Path) -> None:
    data = root / "dledger-n2" / "data" / "00000000000000524288"
    with data.open("r+b") as file:
        file.seek(40_000)
        file.write(bytes(100))
    store, ledger = open_ledger(root)
    assert ledger.log.last_index < 734
    state = ledger.hard_state()
    assert state is not None
    assert state.abstaining
    assert state.term == 2
    store._release()
