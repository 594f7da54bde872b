"""One flipped bit in a log: no other message is lost, no queue moves, and a damaged queue offset is restored."""

import asyncio
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ariane.env import Env, ManualClock
from ariane.protocol.units import Unit
from ariane.store import MessageStore, StoreOptions
from ariane.testing.faults import MemoryFiles
from tests.store.test_torn_tail import log_file, read_all_that_is_there
from tests.store.units import unit

ROOT = Path("/store")
COUNT = 20  # in two queues in turn: offsets 0 to 9, so that single bits lead to 0, to older and to newer ones
MIDDLE = 8  # queue offset 4, which one bit makes 0
FIELDS = (
    ("size", 0, 4),
    ("magic", 4, 4),
    ("crc", 8, 4),
    ("queue id", 12, 4),
    ("flag", 16, 4),
    ("queue offset", 20, 8),
    ("physical offset", 28, 8),
    ("sys flag", 36, 4),
    ("born time", 40, 8),
    ("born host", 48, 8),
    ("store time", 56, 8),
    ("store host", 64, 8),
    ("reconsume times", 72, 4),
    ("prepared offset", 76, 8),
    ("body length", 84, 4),
    ("body", 88, 4),
    ("topic length", 92, 1),
    ("topic", 93, 6),
    ("properties length", 99, 2),
    ("properties", 101, 12),
)
BREAKS_UNIT = {"size", "magic", "crc", "physical offset", "body length", "body", "topic length", "properties length"}
MOVES_UNIT = {"queue id", "topic", "sys flag"}  # the message itself may end in no queue, or cut the log (V6 flags)
STOPS = pytest.mark.parametrize("clean", [False, True], ids=["killed", "closed"])


def open_store(files: MemoryFiles) -> MessageStore:
    options = StoreOptions(
        root=ROOT, commitlog_file_size=1 << 13, consumequeue_file_entries=100, index_slots=20, index_entries=50
    )
    store = MessageStore(options, Env(clock=ManualClock(), files=files))
    store.open()
    return store


@cache
def written(clean: bool) -> tuple[MemoryFiles, tuple[Unit, ...]]:
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    for n in range(COUNT):
        store.append(unit(body=b"m%03d" % n, queue_id=n % 2, UNIQ_KEY=f"U{n:02d}"))
    store.dispatch_now()
    units = sorted(serve(store), key=lambda u: u.physical_offset)
    assert len(units) == COUNT
    assert units[0].size == FIELDS[-1][1] + FIELDS[-1][2]
    if clean:
        asyncio.run(store.close())
    return files, tuple(units)


def serve(store: MessageStore) -> list[Unit]:
    return [u for topic, queue in store.queues() for u in read_all_that_is_there(store, topic, queue)]


def flipped(files: MemoryFiles, at: int, bit: int) -> MemoryFiles:
    left = files.after_kill()
    log_file(left)[at] ^= 1 << bit
    return left


def bits() -> Iterator[tuple[str, int, int]]:
    """Every bit of what decides about a unit's place and end; the outer bits of each byte elsewhere."""
    for field, start, length in FIELDS:
        decides = field in BREAKS_UNIT | MOVES_UNIT or field == "queue offset"
        for byte in range(start, start + length):
            for bit in range(8) if decides else (0, 7):
                yield field, byte, bit


def check_flip(files: MemoryFiles, units: tuple[Unit, ...], number: int, field: str, byte: int, bit: int) -> None:
    damaged = units[number]
    store = open_store(flipped(files, damaged.physical_offset + byte, bit))
    served = {u.body: u for u in serve(store)}
    others = {u.body for u in (units[:number] if store.log_max == damaged.physical_offset else units) if u != damaged}
    if field not in BREAKS_UNIT | MOVES_UNIT:
        others.add(damaged.body)
    if field not in BREAKS_UNIT and field != "sys flag":
        assert store.log_max == units[-1].physical_offset + units[-1].size
    assert others <= set(served) <= {u.body for u in units}
    for queue in (0, 1):
        assert store.max_offset("orders", queue) <= COUNT // 2 + 1
        assert store.min_offset("orders", queue) == 0
    if field == "queue offset":
        assert {u.body: u.queue_offset for u in served.values()} == {u.body: u.queue_offset for u in units}
        again = open_store(store.env.files.after_kill())  # type: ignore[attr-defined]
        assert {u.body: u.queue_offset for u in serve(again)} == {u.body: u.queue_offset for u in units}


@STOPS
@pytest.mark.parametrize("number", [MIDDLE, COUNT - 3, COUNT - 2, COUNT - 1])
def test_a_flipped_bit_costs_no_other_message(number: int, clean: bool) -> None:
    files, units = written(clean)
    for field, byte, bit in bits():
        try:
            check_flip(files, units, number, field, byte, bit)
        except BaseException as error:
            error.add_note(f"bit {bit} of byte {byte} ({field}) of message {number}")
            raise


@pytest.mark.slow
@STOPS
def test_every_bit_of_every_queue_offset_is_restored(clean: bool) -> None:
    files, units = written(clean)
    for number in range(COUNT):
        for byte in range(20, 28):
            for bit in range(8):
                check_flip(files, units, number, "queue offset", byte, bit)


def test_a_damaged_offset_is_written_right_into_the_log() -> None:
    files, units = written(False)
    left = flipped(files, units[MIDDLE].physical_offset + 25, 4)
    store = open_store(left)
    assert log_file(left) == log_file(files)
    assert store.max_offset("orders", 0) == COUNT // 2


def test_a_first_message_of_a_new_queue_with_a_damaged_offset_does_not_move_the_queue_away() -> None:
    """The queue came after the checkpoint: neither its files nor older messages tell where it begins."""
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    for n in range(200):
        store.append(unit(body=b"m%03d" % n))
    store.dispatch_now()
    at = store.append(unit("fresh", b"new")).physical_offset
    store.dispatch_now()
    for bit in range(12, 63):
        left = files.after_kill()
        left.remove(ROOT / "commitlog" / "0".zfill(20))
        last = left._nodes[ROOT / "commitlog" / left.list(ROOT / "commitlog")[-1]].data
        last[at % (1 << 13) + 27 - bit // 8] ^= 1 << bit % 8
        again = open_store(left)
        assert again.max_offset("fresh", 0) == 1, bit


def test_offsets_of_a_topic_created_again_stay_as_they_are() -> None:
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    for n in range(7):
        store.append(unit(body=b"old%d" % n))
    store.delete_topic("orders")
    for n in range(4):
        store.append(unit(body=b"new%d" % n))
    store.dispatch_now()
    again = open_store(files.after_kill())
    assert [(u.queue_offset, u.body) for u in serve(again)] == [(n, b"new%d" % n) for n in range(4)]


def test_messages_that_are_in_the_log_twice_are_served_once() -> None:
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    queue = store.table.find(b"orders", 0)
    assert queue is not None
    for n in (0, 1, 2, 2, 3, 4, 3, 4, 5, 5):
        queue.next_offset = n
        store.append(unit(body=b"m%d" % n, UNIQ_KEY=f"U{n}"))
    store.dispatch_now()
    again = open_store(files.after_kill())
    assert [(u.queue_offset, u.body) for u in serve(again)] == [(n, b"m%d" % n) for n in range(6)]
    assert again.append(unit()).queue_offset == 6


def test_messages_missing_from_the_log_leave_a_gap_in_their_queue() -> None:
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    queue = store.table.find(b"orders", 0)
    assert queue is not None
    for n in (0, 1, 2, 7, 8, 9):
        queue.next_offset = n
        store.append(unit(body=b"m%d" % n))
    store.dispatch_now()
    again = open_store(files.after_kill())
    assert [u.queue_offset for u in serve(again)] == [0, 1, 2, 7, 8, 9]
    assert again.append(unit()).queue_offset == 10


def test_prepared_messages_stay_in_no_queue() -> None:
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    for n in range(6):
        message = unit(body=b"m%d" % n)
        message.sys_flag = (0, 4, 8, 12)[n % 4]
        store.append(message)
    store.dispatch_now()
    again = open_store(files.after_kill())
    assert [(u.queue_offset, u.body) for u in serve(again)] == [(0, b"m0"), (1, b"m2"), (2, b"m4")]
