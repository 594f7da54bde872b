"""What a store needs of a log, shown for each log that it can have."""

import asyncio
from collections.abc import Iterator

import pytest

from ariane.dledger.storage.entry import ENTRY_HEADER
from ariane.protocol.checksum import crc32
from ariane.protocol.units import decode_unit
from ariane.store import MessageStore, PutStatus
from ariane.testing.faults import MemoryFiles
from tests.store.framed import HEADERS, LOGS, ROOT, open_store
from tests.store.units import batch, fill, read_all, unit

pytestmark = pytest.mark.parametrize("kind", sorted(LOGS))


def walk(store: MessageStore) -> Iterator[tuple[int, bytes]]:
    """Physical offset and body of all units, one after the other."""
    at = store.log.next_unit(store.log_min)
    while at >= 0:
        found = store.unit_at(at)
        assert found is not None
        yield at, found.body
        at = store.log.next_unit(at + found.size)


def bodies(store: MessageStore, queues: int = 1) -> list[bytes]:
    found = [u for queue in range(queues) for u in read_all(store, queue_id=queue)]
    return [u.body for u in sorted(found, key=lambda u: u.physical_offset)]


def test_units_lie_where_their_result_and_their_bytes_say(kind: str) -> None:
    store = open_store(kind, MemoryFiles())
    results = [store.append(unit(body=b"m%d" % n, KEYS=f"k{n}")) for n in range(100)]
    store.dispatch_now()
    assert len(store.log.bases()) > 2
    assert results[0].physical_offset == HEADERS[kind]
    assert [result.physical_offset for result in results] == [at for at, _ in walk(store)]
    assert results[-1].end_offset == store.log_max
    assert [u.physical_offset for u in read_all(store)] == [result.physical_offset for result in results]
    for n, result in enumerate(results):
        [found] = store.query("orders", f"k{n}", 32, 0, 1 << 60).slices
        assert decode_unit(found).physical_offset == result.physical_offset
    if kind == "ledger":
        size, at = results[5].size, results[5].physical_offset - ENTRY_HEADER.size
        entry = store.log.view(at, ENTRY_HEADER.size + size)
        assert entry is not None
        header = ENTRY_HEADER.unpack_from(entry)
        assert header == (1, size + ENTRY_HEADER.size, 5, 0, at, 0, 0, header[7], size)
        assert header[7] & 0xFFFFFFFF == crc32(entry[ENTRY_HEADER.size :])


def test_what_is_not_committed_is_not_readable_and_can_be_taken_back(kind: str) -> None:
    store = open_store(kind, MemoryFiles())
    first = store.append(unit(body=b"first"))
    log, end = store.log, store.log_max
    at = log.reserve(200)
    assert at == end + HEADERS[kind]
    assert (log.end, log.view(at, 4), log.written) == (end, None, at + 200)
    log.cancel(at)
    assert (log.written, len(log.tail)) == (end, 0)
    store.append(unit(body=b"second"))
    store.dispatch_now()
    assert bodies(store) == [b"first", b"second"]
    assert first.end_offset == end


def test_a_batch_is_in_one_file_or_refused(kind: str) -> None:
    store = open_store(kind, MemoryFiles())
    sent: list[bytes] = []
    for n in range(12):
        messages = [unit(body=b"%d-%d" % (n, m)) for m in range(5)]
        result = store.append_batch(batch(messages))
        assert result.places is not None
        if kind != "ledger":  # there each message has its place by its size alone, on all members
            assert len({at // 4096 for at in result.places}) == 1
        assert result.end_offset == store.log.written
        sent += [message.body for message in messages]
    largest = store.log.largest_unit
    assert store.append_batch(batch([unit(body=b"x" * 1400)] * 3)).status is PutStatus.MESSAGE_ILLEGAL
    assert store.append(unit(body=b"x" * largest)).status is PutStatus.MESSAGE_ILLEGAL
    exactly = unit(body=b"x" * (largest - (store.append(unit(body=b"")).size)))
    assert store.append(exactly).size == largest
    store.dispatch_now()
    assert bodies(store)[:-2] == sent


@pytest.mark.parametrize("step", [1, 7, 777, 5000])
def test_raw_bytes_make_the_same_store(kind: str, step: int) -> None:
    master, files = open_store(kind, MemoryFiles()), MemoryFiles()
    slave = open_store(kind, files)
    fill(master, 30, queues=3, size=200)
    data = b"".join(bytes(master.log.span(base)[2]) for base in master.log.bases())[: master.log_max]  # type: ignore[index]
    for at in range(0, len(data), step):
        assert slave.append_raw(at, data[at : at + step])
        slave.dispatch_now()
    assert not slave.append_raw(5, b"gap")
    assert slave.log_max == master.log_max
    assert bodies(slave, 3) == bodies(master, 3)
    assert bodies(open_store(kind, files.after_kill()), 3) == bodies(master, 3)


def test_a_copy_may_begin_in_a_later_file(kind: str) -> None:
    master, slave = open_store(kind, MemoryFiles()), open_store(kind, MemoryFiles())
    fill(master, 60)
    base = master.log.bases()[1]
    data = b"".join(bytes(master.log.span(at)[2]) for at in master.log.bases()[1:])[: master.log_max - base]  # type: ignore[index]
    assert slave.append_raw(base, data)
    slave.dispatch_now()
    assert [u.body for u in read_all(slave)] == [u.body for u in read_all(master) if u.physical_offset >= base]


@pytest.mark.parametrize("stop", ["killed", "closed", "power cut"])
def test_a_store_comes_back_after_every_stop(kind: str, stop: str) -> None:
    files = MemoryFiles()
    store = open_store(kind, files)
    fill(store, 70, queues=2)
    store.flusher.begin()
    if stop == "closed":
        asyncio.run(store.close())
    again = open_store(kind, files.after_power_cut() if stop == "power cut" else files.after_kill())
    assert again.log_max == store.log_max
    assert bodies(again, 2) == [b"m%d" % n for n in range(70)]
    assert again.append(unit()).physical_offset == store.log_max + HEADERS[kind]


def test_a_log_cut_at_every_byte_keeps_all_whole_messages(kind: str) -> None:
    files = MemoryFiles()
    store = open_store(kind, files)
    fill(store, 20)
    ends = [u.physical_offset + u.size for u in read_all(store)]
    assert len(store.log.bases()) == 1
    for cut in range(ends[-3], ends[-1]):
        left = files.after_kill()
        data = left._nodes[ROOT / "commitlog" / "0".zfill(20)].data
        data[cut:] = bytes(len(data) - cut)
        again = open_store(kind, left)
        whole = [end for end in ends if end <= cut]
        assert again.log_max >= whole[-1]  # properties have no checksum: a cut in them may look whole
        assert [u.body for u in read_all(again)][: len(whole)] == [b"m%d" % n for n in range(len(whole))]


def test_a_kill_while_messages_are_copied_into_the_log_leaves_none_of_them(kind: str) -> None:
    """Whatever part of the copy was done: the head of the first record comes last."""
    files = MemoryFiles()
    store = open_store(kind, files)
    fill(store, 3)
    end = store.log_max
    store.hold()
    for n in range(2):
        store.append(unit(body=b"x%d" % n, pad="y" * 20))
    length = store.log.written - end
    snapshots: list[MemoryFiles] = []
    files.before_call = lambda: snapshots.append(files.after_kill())
    store.dispatch_now()
    files.before_call = None
    before_head = snapshots[1]
    for copied in range(8, length + 1):
        left = before_head.after_kill()
        data = left._nodes[ROOT / "commitlog" / "0".zfill(20)].data
        data[end + copied :] = bytes(len(data) - end - copied)
        assert open_store(kind, left).log_max == end


def test_only_a_durable_file_that_is_not_the_last_can_be_dropped(kind: str) -> None:
    files = MemoryFiles()
    store = open_store(kind, files)
    fill(store, 70)
    log, bases = store.log, store.log.bases()
    assert log.expendable() is None
    store.flusher.begin()
    for number, base in enumerate(bases[:-1]):
        oldest = log.expendable()
        assert oldest is not None
        assert oldest.base == base
        first = log.drop_first()
        assert first is oldest
        assert first.close()
        assert log.min_offset == bases[number + 1]
        assert log.view(base + HEADERS[kind], 4) is None
    assert log.expendable() is None
    for queue in store.table:
        queue.correct_min(log.min_offset)
    assert [u.physical_offset for u in read_all(store)] == [at for at, _ in walk(store)]


def test_a_failed_sync_writes_everything_again(kind: str) -> None:
    files = MemoryFiles()
    store = open_store(kind, files)
    fill(store, 30)
    rule = files.fail("sync", part="commitlog")
    done: list[bool] = []
    store.when_flushed(store.log_max, done.append)
    assert done == [False]
    assert not store.writable
    files.rules.remove(rule)
    before = len(files.calls)
    store.flusher.tick()
    assert ("write", ROOT / "commitlog" / "0".zfill(20)) in files.calls[before:]
    assert store.writable
    assert store.flushed_offset == store.log_max


def test_a_running_store_continues_after_a_cut_at_every_unit(kind: str) -> None:
    template = MemoryFiles()
    store = open_store(kind, template)
    fill(store, 40, queues=2)
    ends = [0, *(u.physical_offset + u.size for queue in (0, 1) for u in read_all(store, queue_id=queue))]
    for count, end in enumerate(sorted(ends)):
        files = template.after_kill()
        cut = open_store(kind, files)
        cut.truncate(end)
        assert (cut.log_max, cut.flushed_offset, cut.dispatch_behind) == (end, end, 0)
        assert bodies(cut, 2) == [b"m%d" % n for n in range(count)]
        for n in range(40):
            hits = [decode_unit(part).body for part in cut.query("orders", f"k{n}", 32, 0, 1 << 60).slices]
            assert hits == ([b"m%d" % n] if n < count else [])
        fill(cut, 5, topic="other")
        result = cut.append(unit(body=b"next", queue_id=count % 2, KEYS="next"))
        cut.dispatch_now()
        assert result.queue_offset == count // 2
        for left in (files, files.after_kill()):
            again = cut if left is files else open_store(kind, left)
            assert bodies(again, 2) == [*(b"m%d" % n for n in range(count)), b"next"]
            assert len(read_all(again, "other")) == 5
            assert len(again.query("orders", "next", 32, 0, 1 << 60).slices) == 1


def test_a_cut_drops_what_was_not_dispatched_and_fails_who_waits_for_more(kind: str) -> None:
    store = open_store(kind, MemoryFiles())
    store.hold()
    kept = store.append(unit(body=b"kept"))
    store.append(unit(body=b"gone"))
    done: list[bool] = []
    store.when_flushed(kept.end_offset + 10_000, done.append)  # an offset that another copy of the log has
    assert done == []
    store.truncate(kept.end_offset)
    assert done == [False]
    assert bodies(store) == [b"kept"]
    assert store.append(unit(body=b"new")).queue_offset == 1


def test_what_is_stored_but_not_readable_yet_is_flushed_and_can_be_cut(kind: str) -> None:
    """A replicated log shows readers what a majority has."""
    store = open_store(kind, MemoryFiles())
    fill(store, 3)
    readable = store.log_max
    store.hold()
    first = store.append(unit(body=b"first"))
    store.append(unit(body=b"second"))
    store.log.commit()
    store.log.end = readable
    store.flusher.begin()
    assert store.flushed_offset == store.log.stored > readable
    store.truncate(first.end_offset)
    assert (store.log_max, store.log.stored) == (readable, first.end_offset)
    assert bodies(store) == [b"m0", b"m1", b"m2"]
    assert store.append(unit(body=b"next")).queue_offset == 4
    store.dispatch_now()
    assert bodies(store) == [b"m0", b"m1", b"m2", b"first", b"next"]


def test_a_cut_within_a_record_is_refused(kind: str) -> None:
    store = open_store(kind, MemoryFiles())
    fill(store, 5)
    for end in (1, store.log_max - 1, store.log_max + 1, -1):
        with pytest.raises(ValueError, match="no record of the log begins at"):
            store.truncate(end)
    assert len(read_all(store)) == 5


async def test_a_store_with_its_threads_at_work_is_cut(kind: str) -> None:
    files = MemoryFiles()
    store = open_store(kind, files)
    store.start(asyncio.get_running_loop())
    for round_ in range(20):
        end = store.log_max
        fill(store, 40, topic=f"t{round_}")
        store.when_flushed(store.log_max, lambda ok: None)
        store.tick()
        store._queue_flusher.flush(thorough=True)
        await asyncio.sleep(0)
        store.truncate(end)
        assert store.log_max == end
        fill(store, 3)
    await store.close()
    again = open_store(kind, files.after_power_cut())
    assert again.log_max == store.log.end
    assert len(read_all(again)) == 60
    assert all(read_all(again, f"t{round_}") == [] for round_ in range(20))
