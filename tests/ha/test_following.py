"""A slave follows a master over loopback."""

import asyncio
from dataclasses import replace

import pytest

from ariane.env import ManualClock
from ariane.ha import HaMaster
from ariane.ha.sender import SLICE, Sender
from ariane.protocol.ha import REPORT, StreamDecoder
from tests.ha.nodes import OPTIONS, epochs_of, log_bytes, new_store, running_master, running_slave, until
from tests.ha.wire import Pipe
from tests.store.units import fill, read_all, unit


async def test_slave_copies_the_log_of_its_master() -> None:
    master_store, slave_store = new_store(), new_store()
    fill(master_store, 500, size=300)
    async with running_master(master_store) as master, running_slave(slave_store, master.port) as slave:
        fill(master_store, 500, size=300)
        await until(lambda: slave_store.log.stored == master_store.log.stored)
        await until(lambda: slave_store.dispatch_behind == 0)
        assert log_bytes(slave_store) == log_bytes(master_store)
        assert [unit.body for unit in read_all(slave_store)] == [unit.body for unit in read_all(master_store)]
        assert slave.state.connected
        await until(lambda: master.acknowledged(1) == master_store.log.stored)


@pytest.mark.parametrize("batch", [1, 13, 700, 32 << 10])
async def test_any_batch_size_gives_the_same_log(batch: int) -> None:
    """Half messages, file borders and fillers in parts."""
    master_store, slave_store = new_store(file_size=4096), new_store(file_size=4096)
    fill(master_store, 30, size=900)
    options = replace(OPTIONS, transfer_batch=batch)
    async with running_master(master_store, options) as master, running_slave(slave_store, master.port):
        await until(lambda: slave_store.log.stored == master_store.log.stored)
        assert log_bytes(slave_store) == log_bytes(master_store)


async def test_slave_finds_its_master_again_and_goes_on_where_it_was() -> None:
    master_store, slave_store = new_store(), new_store()
    fill(master_store, 50)
    async with running_master(master_store) as master:
        port = master.port
        async with running_slave(slave_store, port) as slave:
            await until(lambda: slave_store.log.stored == master_store.log.stored)
            for _ in range(3):
                await master.stop()
                await until(lambda: not slave.state.connected)
                fill(master_store, 50)
                await master.start("127.0.0.1", port)
                await until(lambda: slave_store.log.stored == master_store.log.stored)
            assert log_bytes(slave_store) == log_bytes(master_store)
            assert slave.counts()["followed"] == 4


async def test_several_slaves_follow_one_master() -> None:
    store, copies = new_store(), [new_store() for _ in range(3)]
    async with (
        running_master(store) as master,
        running_slave(copies[0], master.port),
        running_slave(copies[1], master.port),
    ):
        fill(store, 100)
        async with running_slave(copies[2], master.port):
            fill(store, 100)
            await until(lambda: all(copy.log.stored == store.log.stored for copy in copies))
            assert {log_bytes(copy) for copy in copies} == {log_bytes(store)}
            await until(lambda: len(master.slaves) == 3)


async def test_copied_queues_go_on_counting_when_the_copy_becomes_the_master() -> None:
    store, copy = new_store(), new_store()
    fill(store, 10)
    async with running_master(store) as master, running_slave(copy, master.port) as slave:
        await until(lambda: copy.log.stored == store.log.stored)
        await slave.stop()
        copy.take_over()
        fill(copy, 5)
        assert len(read_all(copy)) == 15


async def test_master_sends_no_more_than_its_budget() -> None:
    clock = ManualClock()
    store = new_store()
    fill(store, 1000, size=500)
    options = replace(OPTIONS, transfer_budget=100_000)
    master = HaMaster(store, options, clock, epochs_of(store))
    await master.start("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", master.port)
    try:
        writer.write(REPORT.pack(0))
        await until(lambda: [slave.sent for slave in master.slaves] == [100_000])
        for more in (5_000, 10_000):
            clock.advance(0.05)
            await until(lambda more=more: master.slaves[0].sent == 100_000 + more)  # type: ignore[misc]
    finally:
        writer.close()
        await master.stop()


async def test_a_slave_far_behind_is_sent_slices_between_which_sends_are_handled() -> None:
    store = new_store(file_size=1 << 20)
    fill(store, 600, size=4000)
    async with running_master(store) as master:
        sender = master.accept()
        assert isinstance(sender, Sender)
        pipe = Pipe(sender, "10.0.0.1")
        sender.connection_made(pipe)
        sender.data_received(REPORT.pack(0))
        ends = [0, sender.next]
        while ends[-1] < store.log.stored:
            assert ends[-1] - ends[-2] <= SLICE
            store.append(unit())  # a send
            master.pump()
            assert sender.next == ends[-1]  # the next slice waits for its turn
            while sender.next == ends[-1]:  # noqa: ASYNC110 - turn by turn, to see each slice
                await asyncio.sleep(0)
            ends.append(sender.next)
        sent = b"".join(bytes(piece) for _, piece in StreamDecoder().feed(bytes(pipe.sent)))
        assert sent == log_bytes(store)
        assert len(ends) > 4
