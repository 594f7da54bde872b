"""The offline tools: what they say is so, and what is damaged they find."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from struct import Struct

import pytest
from typer.testing import CliRunner

from ariane.cli.store import app
from ariane.env import Env, SystemFiles
from ariane.store import MessageStore, StoreOptions
from ariane.store.index.repair import index_names
from ariane.store.layout import Layout
from ariane.store.offline import Findings, Wanted, dump, inspect, rebuild, verify
from tests.recorded import read_manifest
from tests.store.units import fill, read_all, unit

Unpack = Callable[[str], Path]
FILES = SystemFiles()
SIZES = {"slots": 100, "entries": 200}


def small(root: Path) -> StoreOptions:
    return StoreOptions(
        root=root, commitlog_file_size=16384, consumequeue_file_entries=50, index_slots=100, index_entries=200
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of 300 messages in two topics after a clean stop."""
    store = MessageStore(small(tmp_path / "store"), Env())
    store.open()
    fill(store, 200, queues=3)
    fill(store, 100, topic="other")
    asyncio.run(store.close())
    return tmp_path / "store"


def layout(root: Path) -> Layout:
    return Layout(root, root / "commitlog")


def check(root: Path) -> Findings:
    return verify(FILES, layout(root), SIZES["slots"], SIZES["entries"])


def damage(path: Path, at: int, change: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(change)


def contents(root: Path) -> dict[Path, bytes]:
    return {path.relative_to(root): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_whole_store_is_found_whole_and_not_changed(root: Path) -> None:
    before = contents(root)
    found = check(root)
    assert found.problems == []
    assert (found.messages, found.entries, found.index_entries) == (300, 300, 600)
    inspect(FILES, layout(root))
    list(dump(FILES, layout(root), Wanted()))
    assert contents(root) == before


def test_a_store_that_apache_closed_is_found_whole(apache_store: Unpack) -> None:
    found = verify(FILES, layout(apache_store("store-clean")), 500, 400)
    assert found.messages == len(read_manifest("store-clean")["messages"])
    assert found.problems == []


def test_what_a_killed_apache_had_not_dispatched_is_found(apache_store: Unpack) -> None:
    """1,284 messages are in the log and 1,283 in the queues."""
    store = layout(apache_store("store-killed"))
    found = verify(FILES, store, 500, 400)
    assert (found.messages, found.entries) == (1284, 1283)
    assert found.problems == []
    assert found.waiting == [
        "queue FixFlood/3: ends at 320, the log has messages up to 321",
        f"index {index_names(FILES, store.index)[-1]}: the next start checks and completes it",
    ]


def test_a_changed_body_is_found(root: Path) -> None:
    store_bytes = (root / "commitlog" / "0".zfill(20)).read_bytes()
    damage(root / "commitlog" / "0".zfill(20), store_bytes.index(b"m5"), b"X")
    found = check(root)
    assert any(problem.startswith("log ") and "no whole message up to" in problem for problem in found.problems)
    assert found.messages == 299


def test_a_changed_queue_entry_is_found(root: Path) -> None:
    damage(root / "consumequeue" / "orders" / "1" / "0".zfill(20), 5 * 20 + 12, b"\x01")
    found = check(root)
    assert found.problem_count == 1
    assert found.problems[0].startswith("queue orders/1 entry 5: has tags code 72057594037930")


def test_a_missing_queue_entry_is_found(root: Path) -> None:
    last = sorted((root / "consumequeue" / "other" / "0").iterdir())[-1]
    damage(last, (99 - int(last.name) // 20) * 20, bytes(20))
    assert check(root).problems == ["queue other/0: ends at 99, the log has messages up to 100"]


def test_a_missing_queue_is_found(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "other")
    assert check(root).problems == ["queue other/0: ends at 0, the log has messages up to 100"]


def test_a_broken_chain_of_the_index_is_found(root: Path) -> None:
    first = sorted((root / "index").iterdir())[0]
    damage(first, 40 + 100 * 4 + 20 * 20 + 16, (19).to_bytes(4, "big"))
    assert any("entry 20: the chain goes on at 19" in problem for problem in check(root).problems)


def test_a_wrong_slot_of_the_index_is_found(root: Path) -> None:
    first = sorted((root / "index").iterdir())[0]
    damage(first, 40 + 7 * 4, (1).to_bytes(4, "big"))
    assert any("slot 7: begins at 1" in problem for problem in check(root).problems)


def test_a_key_that_is_not_indexed_is_found(root: Path) -> None:
    last = sorted((root / "index").iterdir())[-1]
    last.unlink()
    assert any("are not indexed" in problem for problem in check(root).problems)


def test_inspection_tells_files_ranges_and_counts(root: Path) -> None:
    found = inspect(FILES, layout(root))
    assert found.clean
    assert found.messages == 300
    assert [(q.topic, q.queue_id, q.first, q.end, q.files) for q in found.queues] == [
        ("orders", 0, 0, 67, 2),
        ("orders", 1, 0, 67, 2),
        ("orders", 2, 0, 66, 2),
        ("other", 0, 0, 100, 2),
    ]
    assert found.log_end == check(root).log_end
    assert all(q.first_time <= q.last_time for q in found.queues)
    assert sum(index.entries for index in found.index) == 600


def test_messages_that_no_queue_knows_yet_are_counted(apache_store: Unpack, root: Path) -> None:
    killed = layout(apache_store("store-killed"))
    found = inspect(FILES, killed)
    assert (found.messages, found.waiting) == (1284, 1)
    assert found.log_end == verify(FILES, killed, 500, 400).log_end
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    (root / "abort").touch()
    found = inspect(FILES, layout(root))
    assert (found.messages, found.waiting, found.log_end) == (300, 300, check(root).log_end)
    assert "its last 300 messages are in no queue yet" in run("inspect", str(root))[1]
    code, told = run("verify", str(root), *SIZE_OPTIONS)
    assert (code, "its next start completes queues and index" in told) == (0, True)


def test_what_was_durable_and_is_missing_is_damage_after_a_crash_too(root: Path) -> None:
    """A start after a crash reads the log from the checkpoint on, so it would not find these messages again."""
    end = max(one.last_time for one in inspect(FILES, layout(root)).queues)
    (root / "abort").touch()
    shutil.rmtree(root / "consumequeue" / "other")
    (root / "checkpoint").write_bytes(Struct(">qqq").pack(*[end + 60_000] * 3).ljust(4096, b"\0"))
    assert check(root).problems == ["queue other/0: ends at 0, the log has messages up to 100"]
    (root / "checkpoint").unlink()
    found = check(root)
    assert found.problems == []
    assert found.waiting[0] == "queue other/0: ends at 0, the log has messages up to 100"
    assert [text.split()[0] for text in found.waiting[1:]] == ["index"] * len(index_names(FILES, root / "index"))


def test_a_dump_has_every_message_in_order(root: Path) -> None:
    told = list(dump(FILES, layout(root), Wanted()))
    assert len(told) == 300
    assert [m["commitLogOffset"] for m in told] == sorted(m["commitLogOffset"] for m in told)
    assert (told[0]["topic"], told[0]["body"], told[0]["properties"]["KEYS"]) == ("orders", "m0", "k0")


def test_a_dump_is_limited_by_topic_queue_key_and_time(root: Path) -> None:
    def count(**wanted: object) -> int:
        return len(list(dump(FILES, layout(root), Wanted(**wanted))))  # type: ignore[arg-type]

    assert count(topic="other") == 100
    assert count(topic="orders", queue_id=2) == 66
    assert count(key="k7") == 2
    assert count(key="U000007", topic="other") == 1
    times = [m["storeTimestamp"] for m in dump(FILES, layout(root), Wanted())]
    assert count(begin=times[-1] + 1) == 0
    assert count(end=times[0] - 1) == 0
    assert count(begin=times[0], end=times[-1]) == 300


def test_a_rebuild_makes_the_same_queues_and_index(root: Path) -> None:
    before = contents(root / "consumequeue")
    shutil.rmtree(root / "index")
    damage(root / "consumequeue" / "orders" / "1" / "0".zfill(20), 100, b"\xff" * 50)
    made = rebuild(Env(), layout(root), slots=100, index_entries=200)
    assert (made.messages, made.queues, made.damage) == (300, 4, [])
    assert contents(root / "consumequeue") == before
    assert check(root).problems == []
    assert sorted(path.name for path in root.iterdir() if path.is_dir()) == ["commitlog", "consumequeue", "index"]
    store = MessageStore(small(root), Env())
    assert store.open().clean
    assert len(read_all(store)) == 67
    assert len(store.query("orders", "k7", 32, 0, 1 << 60).slices) == 1
    asyncio.run(store.close())


def test_a_rebuild_leaves_the_messages_of_a_deleted_topic_out(root: Path) -> None:
    store = MessageStore(small(root), Env())
    store.open()
    store.delete_topic("orders")
    store.append(unit("orders", b"anew"))
    asyncio.run(store.close())
    rebuild(Env(), layout(root), slots=100, index_entries=200)
    again = MessageStore(small(root), Env())
    again.open()
    assert [message.body for message in read_all(again)] == [b"anew"]
    assert len(read_all(again, "other")) == 100
    asyncio.run(again.close())


def test_a_rebuild_leaves_damage_out_and_says_so(root: Path) -> None:
    log = root / "commitlog" / "0".zfill(20)
    damage(log, log.read_bytes().index(b"m50"), b"X")
    before = log.read_bytes()
    made = rebuild(Env(), layout(root), slots=100, index_entries=200)
    assert made.messages == 299
    assert made.damage is not None
    assert len(made.damage) == 1
    assert log.read_bytes() == before


def test_apaches_queues_are_rebuilt_as_they_were(apache_store: Unpack) -> None:
    folder = apache_store("store-clean")
    before = contents(folder / "consumequeue")
    delays = (1, 1, 1, 2, 3, 10, 20, 30, 60, 120, 180, 240, 300, 600, 1200, 1800, 3600, 7200)
    rebuild(Env(), layout(folder), slots=500, index_entries=400, delay_ms=lambda level: delays[level - 1] * 1000)
    after = contents(folder / "consumequeue")
    assert {name: data for name, data in after.items() if data.strip(b"\0")} == before


# -- the commands -------------------------------------------------------------------------------------------------

SIZE_OPTIONS = ["--slots", "100", "--entries", "200"]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_the_commands_tell_people(root: Path) -> None:
    code, said = run("inspect", str(root))
    assert code == 0
    assert "300 messages in 4 queues; stopped cleanly" in said
    code, said = run("verify", str(root), *SIZE_OPTIONS)
    assert (code, "all is well" in said) == (0, True)
    code, said = run("rebuild", str(root), "--yes", *SIZE_OPTIONS)
    assert "300 messages in 4 queues" in said
    code, said = run("verify", str(root), *SIZE_OPTIONS)
    assert code == 0


def test_the_commands_tell_programs(root: Path) -> None:
    _, said = run("dump", str(root), "--topic", "other", "--limit", "3")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [line["body"] for line in lines] == ["m0", "m1", "m2"]
    _, said = run("inspect", str(root), "--json")
    assert json.loads(said)["clean"] is True


def test_verify_exits_with_an_error_when_something_is_wrong(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "other")
    code, said = run("verify", str(root), *SIZE_OPTIONS)
    assert code == 1
    assert "queue other/0" in said
    assert "1 problems" in said


def test_a_store_in_use_is_not_rebuilt(root: Path) -> None:
    store = MessageStore(small(root), Env())
    store.open()
    store.append(unit())
    code, said = run("rebuild", str(root), "--yes")
    assert code == 2
    assert "The store is in use: held by process" in said
    asyncio.run(store.close())


def test_a_folder_that_is_no_store_is_told_so(tmp_path: Path) -> None:
    code, said = run("inspect", str(tmp_path))
    assert code == 2
    assert "is no store" in said


@pytest.mark.parametrize("command", ["inspect", "verify", "rebuild", "dump"])
def test_the_store_of_a_member_is_not_taken_for_its_old_plain_part(root: Path, command: str) -> None:
    ledger = root / "dledger-n0" / "data"
    ledger.mkdir(parents=True)
    (ledger / "00000000000000000000").write_bytes(bytes(64))
    code, said = run(command, str(root))
    assert code == 2
    assert f"its messages are in {ledger}" in said


def test_nul_bytes_in_messages_are_no_damage(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = MessageStore(small(root), Env())
    store.open()
    for n in range(40):
        store.append(unit(body=b"\0" * n, UNIQ_KEY=f"U{n}", pad="\0" * (n * 60)))
    asyncio.run(store.close())
    assert check(root).ok
    assert check(root).messages == 40
    assert inspect(FILES, layout(root)).log_end == store.log_max
    assert len(list(dump(FILES, layout(root), Wanted()))) == 40
    assert rebuild(Env(), layout(root), slots=100, index_entries=200).damage == []
    assert check(root).ok
