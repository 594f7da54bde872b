"""Queues: where they begin and end, how they are read, how they survive."""

import resource
from pathlib import Path
from typing import Any

import pytest

from ariane.env import Env, ManualClock
from ariane.protocol.units import stored_properties
from ariane.store import GetStatus, MessageStore, StoreOptions
from ariane.store.queue.entries import BLANK_ENTRY, ENTRY
from ariane.testing.faults import MemoryFiles
from tests.store.units import HOST_V6, bodies, fill, read_all, unit

ROOT = Path("/store")


def new_store(files: MemoryFiles | None = None, **changes: Any) -> MessageStore:
    small: dict[str, Any] = {
        "root": ROOT,
        "commitlog_file_size": 1 << 16,
        "consumequeue_file_entries": 10,
        "index_enabled": False,
    }
    store = MessageStore(StoreOptions(**small | changes), Env(clock=ManualClock(), files=files or MemoryFiles()))
    store.open()
    return store


def disk(store: MessageStore) -> MemoryFiles:
    assert isinstance(store.env.files, MemoryFiles)
    return store.env.files


class Wants:
    """A filter by tag and by a word in the properties."""

    def __init__(self, codes: set[int], word: bytes = b"") -> None:
        self.codes = codes
        self.word = word
        self.asked = 0
        self.needs_properties = bool(word)

    def matches_code(self, tags_code: int) -> bool:
        self.asked += 1
        return tags_code in self.codes

    def matches_message(self, properties: bytes) -> bool:
        return self.word in properties

    def matches_unit(self, unit: memoryview) -> bool:
        return self.matches_message(stored_properties(unit))


def test_entries_lie_in_sparse_files_of_full_length() -> None:
    store = new_store()
    fill(store, 25)
    store._queue_flusher.flush(thorough=True)
    folder = ROOT / "consumequeue" / "orders" / "0"
    assert disk(store).list(folder) == ["0".zfill(20), "200".zfill(20), "400".zfill(20)]
    assert all(disk(store).size(folder / name) == 200 for name in disk(store).list(folder))


@pytest.mark.parametrize("keep", [0, 3, 1024])
def test_reads_are_the_same_from_memory_and_from_files(keep: int) -> None:
    store = new_store()
    fill(store, 25)
    store._queue_flusher.flush(thorough=True, keep=keep)
    fill(store, 5)
    assert [u.body for u in read_all(store)][:25] == [f"m{n}".encode() for n in range(25)]
    assert len(read_all(store)) == 30


def test_statuses_of_a_pull_are_apaches() -> None:
    store = new_store()
    assert store.get("orders", 0, 0, 32).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    fill(store, 5)
    assert store.get("orders", 0, 5, 32).status is GetStatus.OFFSET_OVERFLOW_ONE
    badly = store.get("orders", 0, 9, 32)
    assert (badly.status, badly.next_offset, badly.max_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 5, 5)
    store.table.get("orders", 0).min_offset = 2  # type: ignore[union-attr]
    small = store.get("orders", 0, 1, 32)
    assert (small.status, small.next_offset, small.min_offset) == (GetStatus.OFFSET_TOO_SMALL, 2, 2)
    store.puller.correct_offsets = False
    assert store.get("orders", 0, 9, 32).next_offset == 9


def test_a_pull_is_limited_by_count_and_bytes() -> None:
    store = new_store()
    fill(store, 100, size=1000)
    assert store.get("orders", 0, 0, 7).count == 7
    assert store.get("orders", 0, 0, 100).count == 32
    assert store.get("orders", 0, 0, 32, max_bytes=3500).count == 3
    assert store.get("orders", 0, 0, 32, max_bytes=1).count == 1


def test_messages_on_the_disk_come_in_smaller_batches() -> None:
    store = new_store(consumequeue_file_entries=1000, total_memory=20_000, access_message_in_memory_max_ratio=50)
    fill(store, 100, size=100)
    old = store.get("orders", 0, 0, 32)
    assert (old.count, old.suggest_slave) == (8, True)
    new = store.get("orders", 0, 80, 32)
    assert (new.count, new.suggest_slave) == (20, False)


def test_neighbours_in_the_log_share_a_slice() -> None:
    store = new_store(consumequeue_file_entries=1000)
    fill(store, 10)
    assert len(store.get("orders", 0, 0, 32).slices) == 1
    fill(store, 10, topic="mixed", queues=2)
    result = store.get("mixed", 1, 0, 32)
    assert (result.count, len(result.slices), len(bodies(result))) == (5, 5, 5)


def test_readers_of_more_queues_than_are_read_ahead_find_all_their_messages() -> None:
    queues = 300
    store = new_store(commitlog_file_size=1 << 20)
    fill(store, queues * 12, queues=queues)
    store._queue_flusher.flush(thorough=True)
    again = new_store(disk(store).after_kill(), commitlog_file_size=1 << 20)
    found: dict[int, list[bytes]] = {queue: [] for queue in range(queues)}
    offsets = dict.fromkeys(range(queues), 0)
    while open_queues := [queue for queue in range(queues) if offsets[queue] < 12]:
        for queue in open_queues:
            result = again.get("orders", queue, offsets[queue], 3)
            found[queue] += bodies(result)
            offsets[queue] = result.next_offset
    assert found == {queue: [f"m{queue + queues * n}".encode() for n in range(12)] for queue in range(queues)}
    queue = again.table.get("orders", 0)
    assert queue is not None
    assert queue.entries(0, 9) == b"".join(queue.entries(n, 1) for n in range(9))


def test_what_was_read_ahead_of_a_deleted_topic_is_forgotten() -> None:
    store = new_store()
    fill(store, 8)
    store._queue_flusher.flush(thorough=True)
    again = new_store(disk(store).after_kill())
    assert len(bodies(again.get("orders", 0, 0, 3))) == 3
    again.delete_topic("orders")
    fill(again, 4)
    assert [u.body for u in read_all(again)] == [b"m0", b"m1", b"m2", b"m3"]


def test_a_filter_picks_by_tag_then_by_properties() -> None:
    store = new_store(consumequeue_file_entries=1000)
    fill(store, 9)
    code = store.queue_entries("orders", 0, 1, 1)[0][2]
    result = store.get("orders", 0, 0, 32, Wants({code}))
    assert bodies(result) == [b"m1", b"m4", b"m7"]
    assert result.next_offset == 9
    assert bodies(store.get("orders", 0, 0, 32, Wants({code}, b"k4"))) == [b"m4"]
    nothing = store.get("orders", 0, 0, 32, Wants(set()))
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 9)


def test_a_filter_looks_at_800_entries_a_pull() -> None:
    store = new_store(consumequeue_file_entries=5000, commitlog_file_size=1 << 20)
    fill(store, 1000)
    wants = Wants(set())
    result = store.get("orders", 0, 0, 32, wants)
    assert (result.status, result.next_offset, wants.asked) == (GetStatus.NO_MATCHED_MESSAGE, 800, 800)


def test_a_queue_that_begins_late_is_filled_up_with_blanks() -> None:
    store = new_store()
    queue = store.table.find(b"late", 0)
    assert queue is not None
    queue.put(1000, 100, 7, 13)
    store.table.mark(queue)
    store._queue_flusher.flush(thorough=True)
    assert (queue.min_offset, queue.max_offset) == (13, 14)
    data = disk(store).read(ROOT / "consumequeue" / "late" / "0" / "200".zfill(20))
    assert data == BLANK_ENTRY * 3 + ENTRY.pack(1000, 100, 7) + bytes(120)


def test_missing_entries_leave_the_others_at_their_offsets() -> None:
    store = new_store()
    fill(store, 3)
    queue = store.table.get("orders", 0)
    assert queue is not None
    queue.next_offset = 5
    fill(store, 1)
    result = store.get("orders", 0, 0, 32)
    assert (result.count, result.next_offset, store.max_offset("orders", 0)) == (4, 6, 6)
    assert store.queue_entries("orders", 0, 5, 1)[0][0] == store.physical_offset("orders", 0, 5)
    assert store.queue_entries("orders", 0, 4, 1) == []


def test_a_topic_made_anew_begins_at_zero_also_after_a_crash() -> None:
    store = new_store()
    fill(store, 15)
    store._queue_flusher.flush(thorough=True)
    store.delete_topic("orders")
    assert store.max_offset("orders", 0) == 0
    assert store.append(unit(body=b"anew")).queue_offset == 0
    store.dispatch_now()
    store._queue_flusher.flush(thorough=True)
    assert [u.body for u in read_all(store)] == [b"anew"]
    again = new_store(disk(store).after_kill())
    assert [u.body for u in read_all(again)] == [b"anew"]


@pytest.mark.parametrize("count", [1, 2, 8, 15, 16])
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("crash", ["after_kill", "after_power_cut"])
def test_messages_of_a_deleted_topic_do_not_come_back(count: int, flushed: bool, crash: str) -> None:
    """Also those whose number is one bit away from 0, the offset of the first message of the new topic."""
    store = new_store()
    fill(store, count)
    if flushed:
        store._queue_flusher.flush(thorough=True)
    store.delete_topic("orders")
    assert store.append(unit(body=b"anew")).queue_offset == 0
    store.dispatch_now()
    store.flusher.begin()
    again = new_store(getattr(disk(store), crash)())
    assert [u.body for u in read_all(again)] == [b"anew"]
    assert again.append(unit(body=b"next")).queue_offset == 1


def test_a_log_that_lost_its_end_forgets_what_was_deleted_there() -> None:
    store = new_store()
    fill(store, 3)
    store.flusher.begin()
    kept = store.log_max
    fill(store, 5)
    store.delete_topic("orders")
    cut = new_store(disk(store).after_power_cut())
    assert (cut.log_max, read_all(cut)) == (kept, [])
    fill(cut, 2)
    cut.flusher.begin()
    assert len(read_all(new_store(disk(cut).after_power_cut()))) == 2


def test_a_topic_deleted_while_its_entries_are_written_leaves_nothing() -> None:
    store = new_store()
    fill(store, 15)
    work = store.table.collect(1)
    store.delete_topic("orders")
    store._writer.write(work)
    store.table.wrote(work)
    fill(store, 2)
    store._queue_flusher.flush(thorough=True)
    assert [u.body for u in read_all(store)] == [b"m0", b"m1"]
    assert disk(store).list(ROOT / "consumequeue" / "orders" / "0") == ["0".zfill(20)]


def test_delayed_messages_have_their_delivery_time_as_code() -> None:
    store = new_store(delay_ms=lambda level: level * 1000)
    store.append(unit("SCHEDULE_TOPIC_XXXX", queue_id=2, DELAY="3", TAGS="TagA"))
    store.append(unit("SCHEDULE_TOPIC_XXXX", queue_id=2, TAGS="TagA"))
    store.dispatch_now()
    codes = [entry[2] for entry in store.queue_entries("SCHEDULE_TOPIC_XXXX", 2, 0, 2)]
    assert codes == [store.env.clock.now_ms() + 3000, 2598919]


def test_listeners_hear_of_what_reached_its_queue() -> None:
    store = new_store()
    heard: list[tuple[str, int, int, int]] = []
    store.add_dispatch_listener(
        lambda batch: heard.extend((m.topic, m.queue_id, m.queue_offset, m.tags_code) for m in batch)
    )
    store.append(unit(queue_id=3, TAGS="TagA"))
    store.append(unit("other"))
    assert store.dispatch_behind == store.log_max
    store.dispatch_now()
    assert heard == [("orders", 3, 0, 2598919), ("other", 0, 0, 0)]
    assert store.dispatch_behind == 0


def test_raw_bytes_of_a_master_make_the_same_queues() -> None:
    master, slave = new_store(), new_store()
    fill(master, 50, queues=3, size=2000)
    data = b"".join(bytes(file.memory) for file in master.log.files)[: master.log_max]
    for at in range(0, len(data), 777):
        assert slave.append_raw(at, data[at : at + 777])
        slave.dispatch_now()
    assert not slave.append_raw(5, b"gap")
    for queue in range(3):
        assert [u.body for u in read_all(slave, queue_id=queue)] == [u.body for u in read_all(master, queue_id=queue)]
    assert len(slave.log.files) == len(master.log.files) > 1


@pytest.mark.parametrize("step", [777, 20_000, 1 << 20])
def test_bytes_dispatched_as_they_arrive_make_the_same_queues(step: int) -> None:
    master, slave = new_store(), new_store()
    fill(master, 50, queues=3, size=2000)
    master.append(unit(body=b"v6", host=HOST_V6))
    fill(master, 50, queues=3, size=2000)
    data = b"".join(bytes(file.memory) for file in master.log.files)[: master.log_max]
    for at in range(0, len(data), step):
        assert slave.append_raw(at, data[at : at + step], gather=False)
        assert slave.dispatch_behind < 4096  # at most a unit whose end has not arrived
    assert slave.dispatch_behind == 0
    for queue in range(3):
        assert [u.body for u in read_all(slave, queue_id=queue)] == [u.body for u in read_all(master, queue_id=queue)]


def test_many_queues_fit_into_few_descriptors(tmp_path: Path) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    options = StoreOptions(root=tmp_path, commitlog_file_size=1 << 22, index_enabled=False, open_consumequeue_files=16)
    store = MessageStore(options, Env())
    store.open()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for n in range(400):
        store.append(unit(queue_id=n))
    store.dispatch_now()
    store._queue_flusher.flush(thorough=True, keep=0)
    for n in range(400):
        assert store.get("orders", n, 0, 1).count == 1
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 40 < soft
