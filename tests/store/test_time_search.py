"""Searching a queue by time, exact at the borders."""

from pathlib import Path

import pytest

from ariane.env import Env, ManualClock
from ariane.store import MessageStore, StoreOptions
from ariane.testing.faults import MemoryFiles
from tests.store.units import unit

START = 1_700_000_000_000
TIMES = [0, 0, 0, 100, 200, 200, 1000]  # store times of the messages, after START


@pytest.fixture
def store() -> MessageStore:
    clock = ManualClock(START)
    options = StoreOptions(root=Path("/s"), commitlog_file_size=4096, consumequeue_file_entries=3, index_enabled=False)
    store = MessageStore(options, Env(clock=clock, files=MemoryFiles(clock)))
    store.open()
    for at in TIMES:
        clock.advance((START + at - clock.now_ms()) / 1000)
        store.append(unit())
    store.dispatch_now()
    store._queue_flusher.flush(thorough=True, keep=0)
    return store


@pytest.mark.parametrize(
    ("ms", "offset"),
    [
        (-1, 0),  # before the first message
        (0, 0),  # the first of several stored at that time
        (49, 2),
        (50, 2),  # as near to both: the older
        (51, 3),
        (100, 3),
        (151, 4),
        (200, 4),
        (201, 5),
        (1000, 6),
        (5000, 6),  # behind the last message
    ],
)
def test_the_nearest_message_is_found(store: MessageStore, ms: int, offset: int) -> None:
    assert store.offset_by_time("orders", 0, START + ms) == offset


def test_an_empty_queue_gives_zero(store: MessageStore) -> None:
    assert store.offset_by_time("orders", 9, START) == 0


def test_times_of_single_messages(store: MessageStore) -> None:
    assert [store.store_time("orders", 0, n) - START for n in range(7)] == TIMES
    assert store.store_time("orders", 0, 7) == -1
    assert store.earliest_time("orders", 0) == START
    assert store.earliest_time("nothing", 0) == -1
