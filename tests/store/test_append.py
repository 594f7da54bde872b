"""Appending: offsets, files, limits."""

import struct
import zlib
from pathlib import Path

import pytest

from ariane.env import Env, ManualClock
from ariane.errors import ProtocolError
from ariane.protocol.batch import BatchItem, encode_batch
from ariane.protocol.units import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from ariane.store import GetStatus, MessageStore, PutStatus, StoreOptions
from tests.store.units import HOST, HOST_V6, batch, bodies, fill, read_all, unit


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    small = StoreOptions(
        root=tmp_path, commitlog_file_size=4096, consumequeue_file_entries=10, index_slots=50, index_entries=40
    )
    store = MessageStore(small, Env(clock=ManualClock()))
    store.open()
    return store


def test_a_message_gets_its_offsets_and_its_time(store: MessageStore) -> None:
    first = store.append(unit(body=b"a"))
    second = store.append(unit(body=b"b"))
    assert (first.physical_offset, first.queue_offset) == (0, 0)
    assert (second.physical_offset, second.queue_offset) == (first.end_offset, 1)
    assert first.store_time == store.env.clock.now_ms()
    found = store.unit_at(second.physical_offset)
    assert found is not None
    assert (found.body, found.queue_offset, found.physical_offset) == (b"b", 1, second.physical_offset)


def test_a_message_is_pulled_once_it_is_dispatched(store: MessageStore) -> None:
    store.append(unit(body=b"a"))
    assert store.get("orders", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
    store.dispatch_now()
    assert bodies(store.get("orders", 0, 0, 32)) == [b"a"]


def test_messages_roll_over_files_and_all_stay_readable(store: MessageStore) -> None:
    fill(store, 100, queues=3)
    assert len(store.log.files) > 3
    for queue in range(3):
        assert [u.body for u in read_all(store, queue_id=queue)] == [f"m{n}".encode() for n in range(queue, 100, 3)]


def test_each_file_ends_with_a_blank_record(store: MessageStore) -> None:
    fill(store, 100)
    for file in store.log.files[:-1]:
        last = max(u.physical_offset + u.size for u in read_all(store) if u.physical_offset < file.base + 4096)
        rest = file.base + 4096 - last
        assert rest >= 8
        assert bytes(file.memory[last - file.base :][:8]) == rest.to_bytes(4, "big") + bytes.fromhex("cbd43194")


def test_hosts_of_both_kinds_are_kept(store: MessageStore) -> None:
    store.append(unit(body=b"six", host=HOST_V6, TAGS="TagA"))
    store.dispatch_now()
    (found,) = read_all(store)
    assert (found.born_host, found.store_host, found.sys_flag & 0x30) == (HOST_V6, HOST_V6, 0x30)
    assert store.queue_entries("orders", 0, 0, 1)[0][2] == 2598919


def test_a_batch_is_contiguous(store: MessageStore) -> None:
    store.append(unit(body=b"x" * 3000))
    result = store.append_batch(batch(unit(body=f"b{n}".encode()) for n in range(20)))
    store.dispatch_now()
    assert (result.status, result.count, result.queue_offset, result.physical_offset) == (PutStatus.OK, 20, 1, 4096)
    found = read_all(store)[1:]
    assert [u.body for u in found] == [f"b{n}".encode() for n in range(20)]
    assert found[0].physical_offset == result.physical_offset
    assert found[-1].physical_offset + found[-1].size == result.end_offset


def test_a_batch_says_where_each_message_lies(store: MessageStore) -> None:
    result = store.append_batch(batch(unit(body=b"x" * n, TAGS="TagA", UNIQ_KEY=f"U{n}") for n in range(5)))
    store.dispatch_now()
    found = read_all(store)
    assert result.places == [u.physical_offset for u in found]
    assert [u.body_crc for u in found] == [zlib.crc32(b"x" * n) & 0x7FFFFFFF for n in range(5)]
    assert {entry[2] for entry in store.queue_entries("orders", 0, 0, 5)} == {2598919}
    assert [len(store.query("orders", f"U{n}", 32, 0, 1 << 60).slices) for n in range(6)] == [1, 1, 1, 1, 1, 0]


def test_messages_of_a_batch_are_stored_as_single_ones_are(tmp_path: Path) -> None:
    units = [unit(body=b"b" * n, host=HOST_V6 if n % 2 else HOST, KEYS=f"k{n}") for n in range(2)]
    stored: list[list[bytes]] = []
    for name, many in (("single", False), ("batch", True)):
        store = MessageStore(StoreOptions(root=tmp_path / name, commitlog_file_size=1 << 20), Env(clock=ManualClock()))
        store.open()
        for one in units:
            assert (store.append_batch(batch([one])) if many else store.append(one)).status is PutStatus.OK
        store.dispatch_now()
        stored.append([bytes(file.memory[: store.log_max]) for file in store.log.files])
    assert stored[0] == stored[1]


def test_what_a_batch_shares_stands_behind_the_properties_of_each(store: MessageStore) -> None:
    shared = batch([unit(TAGS="TagA"), unit()])
    shared.body = encode_batch(
        [BatchItem(7, b"a", b"A\x011"), BatchItem(8, b"b", b"B\x012\x02"), BatchItem(9, b"c", b"")]
    )
    shared.properties = b"CLUSTER\x01c"
    assert store.append_batch(shared).count == 3
    store.dispatch_now()
    found = [(u.flag, u.body, u.properties) for u in read_all(store)]
    assert found == [
        (7, b"a", b"A\x011\x02CLUSTER\x01c"), (8, b"b", b"B\x012\x02CLUSTER\x01c"), (9, b"c", b"CLUSTER\x01c"),
    ]  # fmt: skip


def test_a_batch_is_stored_whole_or_not_at_all(store: MessageStore) -> None:
    assert store.append_batch(batch([unit(), unit(K="v" * 32_000)])).status is PutStatus.MESSAGE_ILLEGAL
    long = batch([unit(), unit()])
    long.properties = b"v" * 32_768
    assert store.append_batch(long).status is PutStatus.PROPERTIES_TOO_LONG
    torn = batch([unit(), unit()])
    torn.body = torn.body[:-1]
    with pytest.raises(ProtocolError):
        store.append_batch(torn)
    torn.body = b""
    assert store.append_batch(torn).status is PutStatus.MESSAGE_ILLEGAL
    assert (store.log_max, store.append(unit()).queue_offset) == (0, 0)


def test_a_message_that_cannot_be_put_into_bytes_leaves_no_trace(store: MessageStore) -> None:
    store.hold()
    store.append(unit(body=b"first"))
    impossible = unit(body=b"never")
    impossible.flag = 1 << 40
    with pytest.raises((ValueError, OverflowError, struct.error)):
        store.append(impossible)
    impossible = batch([unit(), unit()])
    impossible.born_time = 1 << 80
    with pytest.raises((ValueError, OverflowError, struct.error)):
        store.append_batch(impossible)
    store.append(unit(body=b"last"))
    store.dispatch_now()
    assert [(u.body, u.queue_offset) for u in read_all(store)] == [(b"first", 0), (b"last", 1)]
    assert store.dispatch_behind == 0


def test_messages_of_one_read_reach_the_log_together(store: MessageStore) -> None:
    store.hold()
    for n in range(60):
        assert store.append(unit(body=f"b{n}".encode())).queue_offset == n
    assert read_all(store) == []
    store.dispatch_now()
    assert [u.body for u in read_all(store)] == [f"b{n}".encode() for n in range(60)]
    assert len(store.log.files) > 1


@pytest.mark.parametrize("flag", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK])
def test_prepared_and_rolled_back_messages_are_in_no_queue(store: MessageStore, flag: int) -> None:
    prepared = unit(body=b"half", UNIQ_KEY="U")
    prepared.sys_flag = flag
    result = store.append(prepared)
    store.append(unit(body=b"whole"))
    store.dispatch_now()
    assert [u.body for u in read_all(store)] == [b"whole"]
    assert store.unit_at(result.physical_offset) is not None
    assert len(store.query("orders", "U", 32, 0, 1 << 60).slices) == (flag == TRANSACTION_PREPARED)


def test_what_cannot_be_stored_is_refused_with_rocketmqs_status(store: MessageStore) -> None:
    assert store.append(unit(body=b"x" * 4096)).status is PutStatus.MESSAGE_ILLEGAL
    assert store.append(unit(topic="t" * 128)).status is PutStatus.MESSAGE_ILLEGAL
    assert store.append(unit(topic="../escape")).status is PutStatus.MESSAGE_ILLEGAL
    assert store.append(unit(queue_id=-1)).status is PutStatus.MESSAGE_ILLEGAL
    assert store.append(unit(K="v" * 40_000)).status is PutStatus.PROPERTIES_TOO_LONG
    assert store.log_max == 0


def test_a_body_over_the_limit_is_refused(tmp_path: Path) -> None:
    store = MessageStore(StoreOptions(root=tmp_path, commitlog_file_size=1 << 20, max_message_size=1000), Env())
    store.open()
    assert store.append(unit(body=b"x" * 1000)).status is PutStatus.OK
    assert store.append(unit(body=b"x" * 1001)).status is PutStatus.MESSAGE_ILLEGAL


def test_a_unit_that_fills_a_file_to_the_last_possible_byte(store: MessageStore) -> None:
    overhead = store.append(unit(body=b"")).size
    room = 4096 - overhead - 8
    store.append(unit(body=b"y" * (room - overhead)))
    assert store.log_max == 4088
    assert store.append(unit(body=b"")).physical_offset == 4096
    assert store.append(unit(body=b"z" * (4088 - overhead))).physical_offset == 8192
    assert store.append(unit(body=b"z" * (4089 - overhead))).status is PutStatus.MESSAGE_ILLEGAL
