"""The last messages of a log are torn or damaged at every byte: what was whole before them stays whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ariane.env import Env, ManualClock
from ariane.protocol.units import Unit
from ariane.store import MessageStore, StoreOptions
from ariane.testing.faults import MemoryFiles
from tests.store.units import fill, read_all, unit, units_of

ROOT = Path("/store")
LOG = ROOT / "commitlog"
COUNT = 12
BODIES = {f"m{n}".encode() for n in range(COUNT)}
STOPS = pytest.mark.parametrize("clean", [False, True], ids=["killed", "closed"])


def open_store(files: MemoryFiles) -> MessageStore:
    options = StoreOptions(
        root=ROOT, commitlog_file_size=1 << 16, consumequeue_file_entries=100, index_slots=20, index_entries=50
    )
    store = MessageStore(options, Env(clock=ManualClock(), files=files))
    store.open()
    return store


async def written(clean: bool) -> tuple[MemoryFiles, list[Unit]]:
    """A store of twelve messages after a stop, and the messages."""
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    fill(store, COUNT, queues=2)
    units = [u for queue in (0, 1) for u in read_all(store, queue_id=queue)]
    store.tick()
    if clean:
        await store.close()
    return files, sorted(units, key=lambda u: u.physical_offset)


def log_file(files: MemoryFiles) -> bytearray:
    return files._nodes[LOG / "00000000000000000000"].data


def check(files: MemoryFiles, whole: list[Unit]) -> None:
    """The messages before the damage are there, what else is served is a message that was sent, and life goes on."""
    store = open_store(files)
    served = [u for topic, queue in store.queues() for u in read_all_that_is_there(store, topic, queue)]
    assert {u.body for u in whole} <= {u.body for u in served} <= BODIES
    end = store.log_max
    store.append(unit(body=b"next"))
    store.dispatch_now()
    again = store.unit_at(end)
    assert again is not None
    assert again.body == b"next"


def read_all_that_is_there(store: MessageStore, topic: str, queue: int) -> Iterator[Unit]:
    """As `read_all`, for a queue that may have gaps."""
    offset = store.min_offset(topic, queue)
    while offset < store.max_offset(topic, queue):
        result = store.get(topic, queue, offset, 32)
        yield from units_of(result.slices)
        offset = result.next_offset


@STOPS
async def test_a_log_cut_at_every_byte_keeps_all_whole_messages(clean: bool) -> None:
    files, units = await written(clean)
    end = units[-1].physical_offset + units[-1].size
    for cut in range(units[-3].physical_offset, end):
        left = files.after_kill()
        log_file(left)[cut:] = bytes(len(log_file(left)) - cut)
        check(left, [u for u in units if u.physical_offset + u.size <= cut])


@STOPS
async def test_a_flipped_byte_never_changes_what_is_delivered(clean: bool) -> None:
    files, units = await written(clean)
    end = units[-1].physical_offset + units[-1].size
    for at in range(units[-3].physical_offset, end):
        left = files.after_kill()
        log_file(left)[at] ^= 0xFF
        check(left, [u for u in units if u.physical_offset + u.size <= at])


async def test_bytes_cut_off_never_come_back() -> None:
    """A unit behind the tear is whole; after the cut a new message ends exactly where it began."""
    files, units = await written(clean=False)
    left = files.after_kill()
    log_file(left)[units[-2].physical_offset] ^= 0xFF
    store = open_store(left)
    assert store.log_max == units[-2].physical_offset
    lost = units[-2]
    same_size = Unit(lost.topic, b"xxx", lost.properties, queue_id=lost.queue_id, born_host=lost.born_host)
    assert store.append(same_size).end_offset == units[-1].physical_offset
    store.dispatch_now()
    again = open_store(left.after_kill())
    assert again.log_max == units[-1].physical_offset
    bodies = [u.body for queue in (0, 1) for u in read_all(again, queue_id=queue)]
    assert units[-1].body not in bodies


async def test_a_tear_at_the_border_of_two_files() -> None:
    """The blank record that ends a file is lost while the next file has messages: the log ends in the first."""
    files = MemoryFiles(ManualClock())
    options = StoreOptions(root=ROOT, commitlog_file_size=4096, index_enabled=False)
    store = MessageStore(options, Env(clock=ManualClock(), files=files))
    store.open()
    fill(store, 40)
    units = read_all(store)
    border = next(u for u in units if u.physical_offset == 4096)
    last = units[units.index(border) - 1]
    for lost in range(1, 9):
        left = files.after_kill()
        blank = last.physical_offset + last.size
        log_file(left)[blank + lost - 1] ^= 0xFF
        again = MessageStore(options, Env(clock=ManualClock(), files=left))
        again.open()
        count = len(read_all(again))
        assert count == (len(units) if lost <= 4 else border.queue_offset), lost
