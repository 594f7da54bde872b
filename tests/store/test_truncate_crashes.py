"""A running store is cut at each unit and stopped at each system call on the way: log, queues and index agree."""

import pytest

from ariane.env import ManualClock
from ariane.protocol.units import decode_unit
from ariane.store import MessageStore
from ariane.testing.faults import Crash, MemoryFiles
from tests.store.framed import LOGS, open_store
from tests.store.units import read_all, unit

COUNT = 24
QUEUES = 2


def written(kind: str) -> tuple[MemoryFiles, list[int]]:
    """A durable store with a checkpoint that covers everything, and the ends of its messages."""
    clock = ManualClock()
    files = MemoryFiles(clock)
    store = open_store(kind, files, clock)
    for n in range(COUNT):
        clock.advance(10.0)
        store.append(unit(body=b"m%d" % n, queue_id=n % QUEUES, KEYS=f"k{n}", text="x" * 150))
        store.dispatch_now()
    store.flusher.begin()
    store._queue_flusher.flush(thorough=True)
    ends = [u.physical_offset + u.size for queue in range(QUEUES) for u in read_all(store, queue_id=queue)]
    assert len(store.log.bases()) > 1
    return files, [0, *sorted(ends)]


def check(store: MessageStore, ends: list[int], least: int) -> int:
    """All messages before the cut are there, and those after it that the log still has; returns how many."""
    found = [u for queue in range(QUEUES) for u in read_all(store, queue_id=queue)]
    count = len(found)
    assert count >= least
    assert store.log_max >= ends[count]
    assert sorted(u.body for u in found) == sorted(b"m%d" % n for n in range(count))
    for n in range(COUNT):
        hits = [decode_unit(part).body for part in store.query("orders", f"k{n}", 32, 0, 1 << 60).slices]
        assert hits == ([b"m%d" % n] if n < count else [])
    return count


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(LOGS))
def test_a_stop_at_every_call_of_a_cut_leaves_a_store_that_agrees_with_its_log(kind: str) -> None:
    template, ends = written(kind)
    stops = 0
    for least, end in enumerate(ends[:-1]):
        stop = 0
        while True:
            files = template.after_kill()
            store = open_store(kind, files)
            files.crash_at = len(files.calls) + stop
            try:
                store.truncate(end)
            except Crash:
                pass
            else:
                files.crash_at = -1
                break
            for number, left in enumerate((files.after_kill(), files.after_power_cut(), files.after_torn_writes(stop))):
                try:
                    check(open_store(kind, left), ends, least)
                except BaseException as error:
                    error.add_note(f"cut at {end}, stopped at call {stop}, way {number}")
                    raise
            stop += 1
        stops += stop
        assert check(store, ends, least) == least
    assert stops > 5 * COUNT


@pytest.mark.parametrize("kind", sorted(LOGS))
def test_older_messages_of_another_copy_that_replace_what_was_cut_survive_a_crash(kind: str) -> None:
    """Their store times are before the checkpoint, which covers what was cut: it must have been lowered."""
    template, ends = written(kind)
    for count in (0, 3, 20):
        files = template.after_kill()
        store = open_store(kind, files)
        store.truncate(ends[count])
        store.env.clock.advance(-5000)  # type: ignore[attr-defined]
        store.append(unit(body=b"other", queue_id=count % QUEUES))
        store.dispatch_now()
        store.flusher.begin()
        for left in (files.after_kill(), files.after_power_cut()):
            again = open_store(kind, left)
            found = [u for queue in range(QUEUES) for u in read_all(again, queue_id=queue)]
            assert sorted(u.body for u in found) == sorted([b"other", *(b"m%d" % n for n in range(count))])
