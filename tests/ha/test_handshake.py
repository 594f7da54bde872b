"""What an Ariane slave and its master tell each other first, and what the slave does when they do not fit."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ariane.ha import HaOptions, HaSlave, SlavePhase, common_end
from ariane.protocol.ha import GREETING, REPORT, EpochEntry, ReportDecoder, frame_head
from ariane.store import MessageStore
from ariane.store.units.reading import read_unit
from tests.ha.nodes import OPTIONS, epochs_of, log_bytes, new_store, running_master, running_slave, until
from tests.store.units import fill, read_all, unit


async def copied(count: int = 20) -> tuple[MessageStore, MessageStore]:
    """A master's store and a slave's that has all of it; both are closed and opened again."""
    one, two = new_store(), new_store()
    fill(one, count)
    async with running_master(one) as master, running_slave(two, master.port):
        await until(lambda: two.log.stored == one.log.stored)
    return reopened(one), reopened(two)


def reopened(store: MessageStore) -> MessageStore:
    return new_store(store.env.files)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "phase", "text"),
    [
        (replace(OPTIONS, cluster="other"), SlavePhase.WRONG_NAME, "cluster other"),
        (replace(OPTIONS, broker="other"), SlavePhase.WRONG_NAME, "slave is other"),
    ],
)
async def test_slave_of_another_name_stops_and_says_so(options: HaOptions, phase: SlavePhase, text: str) -> None:
    store, copy = new_store(), new_store()
    fill(store, 5)
    async with running_master(store) as master, running_slave(copy, master.port, options) as slave:
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is phase
        assert text in slave.state.reason
        assert copy.log.stored == 0
        assert master.counts()["refused_name"] == 1


@pytest.mark.parametrize(("broker", "phase"), [("b", SlavePhase.FOLLOWING), ("other", SlavePhase.WRONG_NAME)])
async def test_phase_is_right_when_the_master_answers_before_the_slave_looks(broker: str, phase: SlavePhase) -> None:
    store, copy = new_store(), new_store()
    fill(store, 5)
    entered: list[SlavePhase] = []
    slaves: list[HaSlave] = []

    async def connect(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> object:
        """Connect, and return after the whole handshake, as on a busy event loop."""
        slaves[0].on_change.append(lambda state: entered.append(state.phase))
        connection = await asyncio.get_running_loop().create_connection(factory, host, port)
        await until(lambda: phase in entered)
        return connection

    async with running_master(store) as master:
        options = replace(OPTIONS, broker=broker)
        async with running_slave(copy, master.port, options, connect=connect) as slave:
            slaves.append(slave)
            await until(lambda: phase in entered)
            for _ in range(5):  # lets the slave's own task go on
                await asyncio.sleep(0)
            assert slave.state.phase is phase


@pytest.mark.parametrize("keys", [("k", ""), ("", "k"), ("k", "other")])
async def test_nothing_is_copied_unless_both_have_the_key(keys: tuple[str, str]) -> None:
    store, copy = new_store(), new_store()
    fill(store, 5)
    options = replace(OPTIONS, key=keys[1])
    async with (
        running_master(store, replace(OPTIONS, key=keys[0])) as master,
        running_slave(copy, master.port, options) as slave,
    ):
        await until(lambda: slave.state.phase is SlavePhase.REFUSED)
        assert "key" in slave.state.reason
        assert (copy.log.stored, master.acknowledged(1)) == (0, 0)


async def test_nodes_with_the_same_key_follow() -> None:
    store, copy = new_store(), new_store()
    fill(store, 5)
    options = replace(OPTIONS, key="secret")
    async with running_master(store, options) as master, running_slave(copy, master.port, options):
        await until(lambda: copy.log.stored == store.log.stored)


async def test_old_master_drops_what_the_promoted_one_does_not_have() -> None:
    old, heir = await copied()
    end = heir.log.stored
    for _ in range(3):  # never copied
        old.append(unit(body=b"only on the old master"))
    old.dispatch_now()
    epochs_of(heir).begin(end, promote=True)
    cuts: list[int] = []
    async with running_master(heir, begin=False) as master:
        fill(heir, 10, topic="new")
        async with running_slave(old, master.port) as slave:
            slave.on_truncate.append(cuts.append)
            await until(lambda: old.log.stored == heir.log.stored)
            await until(lambda: old.dispatch_behind == 0)
            assert log_bytes(old) == log_bytes(heir)
            assert len(read_all(old)) == 20
            assert [u.body for u in read_all(old, "new")] == [u.body for u in read_all(heir, "new")]
    assert cuts == [end]


async def test_slave_ahead_of_a_master_that_lost_its_tail_stops() -> None:
    """After a power cut of the master alone: the slave may have what was acknowledged."""
    master_store, slave_store = await copied()
    end = master_store.log.stored
    master_store.truncate(read_all(master_store)[-1].physical_offset)
    async with running_master(master_store) as master:
        fill(master_store, 5, topic="other")
        async with running_slave(slave_store, master.port) as slave:
            await until(lambda: slave.state.stopped)
            assert slave.state.phase is SlavePhase.AHEAD
            assert "promote this broker" in slave.state.reason
            assert slave_store.log.stored == end


async def test_slave_whose_dispatch_is_stuck_does_not_take_its_messages_for_a_filler() -> None:
    master_store, slave_store = await copied()
    end = slave_store.log.stored
    last = read_all(master_store)[-1].physical_offset
    master_store.truncate(last)
    stuck = read_unit(slave_store.log.raw(last, end - last) or memoryview(b""), 0, last, False, slave_store.table)
    assert stuck is not None
    stuck.physical_offset = end  # never readable: dispatch waits for it
    slave_store.dispatcher.position, slave_store.dispatcher.pending = last, [stuck]
    async with running_master(master_store) as master, running_slave(slave_store, master.port) as slave:
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is SlavePhase.AHEAD
        assert slave_store.log.stored == end


async def test_slave_follows_a_master_that_lost_its_tail_when_it_is_told_to() -> None:
    master_store, slave_store = await copied()
    master_store.truncate(read_all(master_store)[-1].physical_offset)
    options = replace(OPTIONS, truncate="always")
    async with running_master(master_store) as master:
        fill(master_store, 5, topic="other")
        async with running_slave(slave_store, master.port, options):
            await until(lambda: slave_store.log.stored == master_store.log.stored)
            assert log_bytes(slave_store) == log_bytes(master_store)


async def test_wiped_master_does_not_wipe_its_slave() -> None:
    _, slave_store = await copied()
    end = slave_store.log.stored
    empty = new_store()
    async with running_master(empty) as master, running_slave(slave_store, master.port) as slave:
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is SlavePhase.DIVERGED
        assert slave_store.log.stored == end


async def test_copy_that_sends_waited_for_is_never_cut() -> None:
    old, kept = new_store(), new_store()
    fill(old, 20)
    async with running_master(old, waits=True) as master, running_slave(kept, master.port):
        await until(lambda: master.acknowledged(1) == old.log.stored)
    kept, lagging = reopened(kept), new_store()
    fill(lagging, 1)
    data = log_bytes(reopened(old))
    first = int.from_bytes(data[:4], "big")
    lagging = new_store()
    assert lagging.append_raw(0, data[: first * 3])
    lagging.dispatch_now()
    epochs = epochs_of(lagging)
    epochs.adopt(epochs_of(kept).entries, lagging.log.stored, promised=True)
    epochs.begin(lagging.log.stored, promote=True)
    async with running_master(lagging, begin=False) as master, running_slave(kept, master.port) as slave:
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is SlavePhase.AHEAD
        assert "acknowledged" in slave.state.reason
        assert len(read_all(kept)) == 20


async def test_diverged_bytes_are_noticed_although_the_epochs_agree() -> None:
    master_store, slave_store = await copied()
    last = read_all(slave_store)[-1]
    slave_store.log.patch(last.physical_offset + 90, b"x")
    async with running_master(master_store) as master, running_slave(slave_store, master.port) as slave:
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is SlavePhase.DIVERGED
        assert "differ" in slave.state.reason


async def test_wiped_slave_gets_the_log_from_the_first_file() -> None:
    store, copy = new_store(), new_store()
    fill(store, 400, size=500)
    assert len(store.log.bases()) > 2
    async with running_master(store) as master, running_slave(copy, master.port):
        await until(lambda: copy.log.stored == store.log.stored)
        assert log_bytes(copy) == log_bytes(store)


async def test_slave_whose_place_was_deleted_on_the_master_stops() -> None:
    store, copy = await copied()
    fill(store, 600, size=500)
    first = store.log.drop_first()
    first.close()
    async with running_master(store) as master, running_slave(copy, master.port) as slave:
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is SlavePhase.BEHIND
        assert "delete this store" in slave.state.reason


# A master that speaks as Apache's does: it ignores the greeting and takes the first other report for the start.


@asynccontextmanager
async def plain_master(data: bytes, first: int, starts: list[int]) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder, at = ReportDecoder(), -1
        while chunk := await reader.read(1000):
            for report in decoder.feed(chunk):
                if report == GREETING:
                    continue
                if at >= 0:
                    writer.write(frame_head(at, 0))
                    continue
                assert isinstance(report, int)
                starts.append(report)
                at = report
                while at < first + len(data):
                    piece = data[at - first : at - first + 1000]
                    writer.write(frame_head(at, len(piece)) + piece)
                    at += len(piece)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def known(first: int, end: int) -> Callable[[], object]:
    async def master_range() -> tuple[int, int]:
        return first, end

    return master_range


PLAIN = replace(OPTIONS, handshake_timeout=0.05)


async def test_wiped_slave_asks_a_plain_master_for_its_first_byte_but_one() -> None:
    source, copy, starts = new_store(), new_store(), list[int]()
    fill(source, 400, size=500)
    data = log_bytes(source)
    async with (
        plain_master(data, 0, starts) as port,
        running_slave(copy, port, PLAIN, master_range=known(0, len(data))) as slave,
    ):
        await until(lambda: copy.log.stored == source.log.stored)
        assert log_bytes(copy) == data
        assert not slave.state.ariane
        assert slave.state.reported > 1
    assert starts == [1]
    assert len(read_all(reopened(copy))) == 400


async def test_wiped_slave_asks_a_plain_master_for_its_first_file() -> None:
    source, copy, starts = new_store(), new_store(), list[int]()
    fill(source, 400, size=500)
    first = source.log.bases()[1]
    data = log_bytes(source)[first:]
    async with (
        plain_master(data, first, starts) as port,
        running_slave(copy, port, PLAIN, master_range=known(first, first + len(data))),
    ):
        await until(lambda: copy.log.stored == source.log.stored)
        assert (copy.log.min_offset, log_bytes(copy)) == (first, data)
    assert starts == [first]


@pytest.mark.parametrize(("first", "end", "phase"), [(0, 10, SlavePhase.AHEAD), (1 << 20, 1 << 21, SlavePhase.BEHIND)])
async def test_slave_that_does_not_fit_a_plain_master_stops(first: int, end: int, phase: SlavePhase) -> None:
    copy, starts = new_store(), list[int]()
    fill(copy, 10)
    async with (
        plain_master(b"", 0, starts) as port,
        running_slave(copy, port, PLAIN, master_range=known(first, end)) as slave,
    ):
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is phase
    assert starts == []


@pytest.mark.parametrize("have", [0, 10])
async def test_slave_notices_that_a_plain_master_has_deleted_what_comes_next(have: int) -> None:
    """Apache's master then sends heartbeats only, without an end."""
    source, copy, starts = new_store(), new_store(), list[int]()
    fill(source, 400, size=500)
    fill(copy, have)
    end, file = copy.log.stored, source.log.bases()[1]
    first = 0

    async def master_range() -> tuple[int, int]:
        return first, source.log.stored

    options = replace(PLAIN, housekeeping_interval=0.6, heartbeat_interval=0.1)
    async with (
        plain_master(b"", 0, starts) as port,
        running_slave(copy, port, options, master_range=master_range) as slave,
    ):
        await until(lambda: slave.state.connected)
        first = file  # retention has deleted the file before the slave had it
        if have:
            await until(lambda: slave.state.stopped)
            assert slave.state.phase is SlavePhase.BEHIND
            assert starts == [end]
        else:
            await until(lambda: starts[-1] == file)
            assert not slave.state.stopped


async def test_garbage_from_a_master_stops_the_slave_and_leaves_its_log_alone() -> None:
    copy, starts = new_store(), list[int]()
    fill(copy, 10)
    end = copy.log.stored
    async with (
        plain_master(bytes(end) + b"nonsense" * 100, 0, starts) as port,
        running_slave(copy, port, PLAIN) as slave,
    ):
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is SlavePhase.DAMAGED
        assert copy.log.stored == end


async def test_a_plain_slave_of_ours_is_served_as_apaches_is() -> None:
    """Eight bytes, no greeting: the answer is the stream alone."""
    store = new_store()
    fill(store, 50)
    async with running_master(store) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(REPORT.pack(0))
        data = b""
        while len(data) < store.log.stored:
            head = await reader.readexactly(12)
            size = int.from_bytes(head[8:], "big")
            assert int.from_bytes(head[:8], "big") == len(data)
            assert size <= OPTIONS.transfer_batch
            data += await reader.readexactly(size)
        assert data == log_bytes(store)
        writer.close()


def test_common_end_of_logs_without_epochs_is_the_shorter_end() -> None:
    assert common_end([], 70, [], 50) == 50
    assert common_end([], 70, [EpochEntry(1, 60, "a")], 90) == 60
    assert common_end([EpochEntry(1, 0, "a")], 70, [EpochEntry(1, 0, "b")], 90) == 0


async def test_slave_that_ends_within_a_filler_goes_on_although_its_dispatch_is_stuck() -> None:
    """The master sends a filler in parts; the connection is lost between two of them."""
    store, copy = new_store(file_size=4096), new_store(file_size=4096)
    fill(store, 3, size=900)
    last = store.log.stored
    store.log.start_next()  # fills the rest of the file
    fill(store, 3, size=900)
    whole = log_bytes(store)
    assert copy.append_raw(0, whole[: last + 100])  # all of the filler's head, some of its zeros
    assert copy.dispatcher.position == 0
    epochs_of(copy).adopt((EpochEntry(1, 0, "a"),), 0, promised=False)
    epochs_of(store).adopt((EpochEntry(1, 0, "a"),), 0, promised=False)
    async with running_master(store, begin=False) as master, running_slave(copy, master.port) as slave:
        await until(lambda: copy.log.stored == store.log.stored or slave.state.stopped)
        assert slave.state.phase is SlavePhase.FOLLOWING, slave.state.reason
        assert log_bytes(copy) == whole


async def test_bytes_of_unknown_origin_are_not_dropped_for_a_promoted_master() -> None:
    """A copy from an Apache master has no epochs: sends may have waited for it."""
    store, copy = new_store(), new_store()
    fill(store, 5)
    copy.append_raw(0, log_bytes(store))
    fill(copy, 2)
    copied_end = copy.log.stored
    epochs_of(store).begin(store.log.stored, promote=True)
    async with running_master(store, begin=False) as master, running_slave(copy, master.port) as slave:
        await until(lambda: slave.state.stopped)
        assert slave.state.phase is SlavePhase.AHEAD
        assert "not known" in slave.state.reason
        assert copy.log.stored == copied_end


async def test_address_that_is_none_is_reported_and_tried_again() -> None:
    copy = new_store()
    copy.start(asyncio.get_running_loop())
    slave = HaSlave(copy, OPTIONS, copy.env.clock, "127.0.0.1:here", epochs_of(copy))
    slave.start()
    try:
        await until(lambda: slave.counts().get("connect_failed", 0) >= 2)
        assert "127.0.0.1:here" in slave.state.reason
    finally:
        await slave.stop()
        await copy.close()
