"""Finding messages by key."""

from pathlib import Path

import pytest

from ariane.env import Env, ManualClock
from ariane.protocol.java import string_hash
from ariane.protocol.units import decode_unit
from ariane.store import MessageStore, StoreOptions
from ariane.store.index.index import joined_hash, key_hash, name_at
from ariane.testing.faults import MemoryFiles
from tests.store.units import fill, unit

ROOT = Path("/store")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MessageStore:
    options = StoreOptions(root=ROOT, commitlog_file_size=1 << 16, index_slots=7, index_entries=20)
    store = MessageStore(options, Env(clock=clock, files=MemoryFiles(clock)))
    store.open()
    return store


def found(store: MessageStore, key: str, most: int = 32, begin: int = 0, end: int = 1 << 60) -> list[bytes]:
    return [decode_unit(part).body for part in store.query("orders", key, most, begin, end).slices]


@pytest.mark.parametrize("key", ["", "k", "k1", "日本", "\U0001d4b3", "7F0000010000597F00000000000000DC", "x" * 500])
def test_the_hash_is_javas_made_positive(key: str) -> None:
    assert joined_hash(string_hash("orders#"), key.encode()) == key_hash(f"orders#{key}")
    assert key_hash(f"orders#{key}") == abs(string_hash(f"orders#{key}"))


def test_the_smallest_int_counts_as_zero() -> None:
    assert string_hash("polygenelubricants") == -(1 << 31)
    assert key_hash("polygenelubricants") == 0


def test_every_word_of_the_keys_and_the_unique_key_find_the_message(store: MessageStore) -> None:
    store.append(unit(body=b"a", KEYS="one  two", UNIQ_KEY="U1"))
    store.append(unit(body=b"b", KEYS="two"))
    store.dispatch_now()
    assert found(store, "one") == [b"a"]
    assert found(store, "U1") == [b"a"]
    assert found(store, "two") == [b"b", b"a"]
    assert found(store, "three") == []
    assert store.query("other", "one", 32, 0, 1 << 60).slices == []


def test_newest_first_up_to_a_maximum_over_several_files(store: MessageStore) -> None:
    for n in range(60):
        store.append(unit(body=str(n).encode(), KEYS="same"))
    store.dispatch_now()
    assert len(store.index.files) == 4 if store.index else False
    assert found(store, "same", 60) == [str(n).encode() for n in range(59, -1, -1)]
    assert found(store, "same", 5) == [b"59", b"58", b"57", b"56", b"55"]


def test_a_message_with_more_keys_than_a_file_has_room_for_is_found_by_each(store: MessageStore) -> None:
    store.append(unit(body=b"before", KEYS="first"))
    store.append(unit(body=b"many", KEYS=" ".join(f"k{n}" for n in range(100))))
    store.append(unit(body=b"after", KEYS="k7"))
    store.dispatch_now()
    assert store.dispatch_behind == 0
    assert all(found(store, f"k{n}")[-1:] == [b"many"] for n in range(100))
    assert found(store, "k7") == [b"after", b"many"]
    assert found(store, "first") == [b"before"]


def test_times_limit_a_query_to_the_second(store: MessageStore, clock: ManualClock) -> None:
    begin = clock.now_ms()
    for n in range(50):
        store.append(unit(body=str(n).encode(), KEYS="same"))
        clock.advance(1.0)
    store.dispatch_now()
    hits = found(store, "same", 64, begin + 10_000, begin + 19_000)
    assert hits == [str(n).encode() for n in range(19, 9, -1)]


def test_a_query_says_how_far_the_index_is(store: MessageStore) -> None:
    fill(store, 5)
    last = store.queue_entries("orders", 0, 4, 1)[0][0]
    result = store.query("orders", "k0", 32, 0, 1 << 60)
    assert (result.last_update_offset, result.last_update_time) == (last, store.store_time("orders", 0, 4))


def test_headers_count_as_apaches_do(store: MessageStore) -> None:
    fill(store, 30)
    assert store.index is not None
    for file in store.index.files[:-1]:
        assert file.count == file.entries
    assert all(1 <= file.slots_used <= 7 for file in store.index.files)
    names = store.env.files.list(ROOT / "index")
    assert names == sorted(names)
    assert names[0] == name_at(1_700_000_000_000)


def test_a_store_without_index_answers_nothing() -> None:
    options = StoreOptions(root=ROOT, commitlog_file_size=1 << 16, index_enabled=False)
    store = MessageStore(options, Env(files=MemoryFiles()))
    store.open()
    fill(store, 3)
    assert found(store, "k1") == []
    assert not store.env.files.exists(ROOT / "index")


def test_other_sizes_in_the_configuration_are_overruled(store: MessageStore) -> None:
    fill(store, 30)
    files = store.env.files.after_kill()  # type: ignore[attr-defined]
    other = StoreOptions(root=ROOT, commitlog_file_size=1 << 16, index_slots=11, index_entries=40)
    again = MessageStore(other, Env(clock=store.env.clock, files=files))
    report = again.open()
    assert any("7 slots and 20 entries" in note for note in report.notes)
    for n in range(30):
        assert found(again, f"k{n}") == [f"m{n}".encode()]


def test_an_index_that_cannot_be_read_is_made_anew(store: MessageStore) -> None:
    fill(store, 30)
    files = store.env.files.after_kill()  # type: ignore[attr-defined]
    for name in files.list(ROOT / "index"):
        files.open(ROOT / "index" / name).pwrite(0, b"\xff" * 200)
    again = MessageStore(store.options, Env(clock=store.env.clock, files=files))
    again.open()
    for n in range(30):
        assert found(again, f"k{n}") == [f"m{n}".encode()]
