"""Sends of a synchronous master: which status they get, and when."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ariane.env import ManualClock
from ariane.ha import HaMaster, HaOptions, HaSlave, Replicated
from ariane.protocol.ha import REPORT
from ariane.store import MessageStore, PutStatus
from tests.ha.nodes import OPTIONS, epochs_of, new_store, running_master, running_slave, until
from tests.store.units import fill, read_all, unit


class Sends:
    """Appends messages to a master, and notes the statuses in the order in which they come."""

    def __init__(self, store: MessageStore, master: HaMaster, options: HaOptions = OPTIONS) -> None:
        self.store = store
        self.replicated = Replicated(store, master, options, store.env.clock)
        self.statuses: dict[int, PutStatus] = {}

    def send(self) -> int:
        result = self.store.append(unit())
        number = result.queue_offset
        self.store.dispatch_now()
        self.replicated.wait(result, lambda status: self.statuses.__setitem__(number, status))
        return number


async def test_send_is_acknowledged_when_the_slave_has_flushed_it() -> None:
    master_store, slave_store = new_store(), new_store()
    async with running_master(master_store, waits=True) as master:
        sends = Sends(master_store, master)
        async with running_slave(slave_store, master.port):
            await until(lambda: master.in_sync() == 1)
            number = sends.send()
            await until(lambda: number in sends.statuses)
            assert sends.statuses[number] is PutStatus.OK
            assert slave_store.log.flushed == master_store.log.stored


async def test_send_without_a_slave_is_slave_not_available_at_once() -> None:
    store = new_store()
    async with running_master(store, waits=True) as master:
        sends = Sends(store, master)
        assert sends.statuses.get(sends.send()) is PutStatus.SLAVE_NOT_AVAILABLE


async def test_slave_that_is_far_behind_is_not_available() -> None:
    options = replace(OPTIONS, fall_behind_max=1000)
    store = new_store()
    fill(store, 100)
    async with running_master(store, options, waits=True) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(REPORT.pack(0))
        await until(lambda: len(master.slaves) == 1)
        sends = Sends(store, master, options)
        assert sends.statuses.get(sends.send()) is PutStatus.SLAVE_NOT_AVAILABLE
        writer.close()
        del reader


async def test_silent_slave_is_a_timeout_and_holds_up_no_other_send() -> None:
    options = replace(OPTIONS, slave_timeout=0.05)
    store = new_store()
    fill(store, 1)
    async with running_master(store, options, waits=True) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(REPORT.pack(store.log.stored))
        await until(lambda: len(master.slaves) == 1)
        late = Sends(store, master, options)
        number = late.send()
        late_end = store.log.stored
        await until(lambda: number in late.statuses)
        assert late.statuses[number] is PutStatus.FLUSH_SLAVE_TIMEOUT
        patient = Sends(store, master)
        first = patient.send()
        end = store.log.stored
        second = patient.send()
        writer.write(REPORT.pack(late_end))  # the next frame is sent only now
        await until(lambda: master.slaves[0].sent == store.log.stored)
        writer.write(REPORT.pack(end))  # covers the first only
        await until(lambda: first in patient.statuses)
        assert patient.statuses == {first: PutStatus.OK}
        writer.write(REPORT.pack(store.log.stored))
        await until(lambda: second in patient.statuses)
        assert patient.statuses[second] is PutStatus.OK
        writer.close()
        del reader


async def test_two_slaves_must_have_a_message_when_three_copies_are_promised() -> None:
    options = replace(OPTIONS, in_sync_replicas=3)
    store, one, two = new_store(), new_store(), new_store()
    async with running_master(store, options, waits=True) as master:
        sends = Sends(store, master, options)
        async with running_slave(one, master.port):
            await until(lambda: master.in_sync() == 1)
            assert sends.statuses.get(sends.send()) is PutStatus.SLAVE_NOT_AVAILABLE
            async with running_slave(two, master.port):
                await until(lambda: master.in_sync() == 2)
                number = sends.send()
                await until(lambda: number in sends.statuses)
                assert sends.statuses[number] is PutStatus.OK
                assert one.log.flushed == two.log.flushed == store.log.stored


async def test_learner_never_counts() -> None:
    store, learner = new_store(), new_store()
    options = replace(OPTIONS, learner=True)
    async with running_master(store, waits=True) as master, running_slave(learner, master.port, options):
        fill(store, 10)
        await until(lambda: learner.log.stored == store.log.stored)
        assert [slave.learner for slave in master.slaves] == [True]
        assert (master.in_sync(), master.acknowledged(1)) == (0, 0)


async def test_master_degrades_to_the_copies_that_are_there_or_refuses() -> None:
    options = replace(OPTIONS, in_sync_replicas=3, auto_in_sync_replicas=True)
    store, one = new_store(), new_store()
    async with running_master(store, options, waits=True) as master:
        sends = Sends(store, master, options)
        assert sends.statuses.get(sends.send()) is PutStatus.OK  # no slave, and one copy is enough
        strict = Replicated(store, master, replace(options, min_in_sync_replicas=2), store.env.clock)
        assert not strict.enough
        async with running_slave(one, master.port):
            await until(lambda: master.in_sync() == 1)
            assert strict.enough
            number = sends.send()
            await until(lambda: number in sends.statuses)
            assert sends.statuses[number] is PutStatus.OK
            assert one.log.flushed == store.log.stored


async def test_what_a_slave_acknowledged_is_forgotten_when_it_leaves() -> None:
    store, copy = new_store(), new_store()
    fill(store, 10)
    async with running_master(store, waits=True) as master:
        async with running_slave(copy, master.port):
            await until(lambda: master.acknowledged(1) == store.log.stored)
        await until(lambda: master.acknowledged(1) == 0)
        assert master.slaves == []


async def test_readers_see_only_what_the_promised_copies_have() -> None:
    options = replace(OPTIONS, confirmed_reads=True)
    store, copy = new_store(), new_store()
    fill(store, 3)
    async with running_master(store, options, waits=True) as master:
        fill(store, 200, size=700)  # crosses a file
        assert store.max_offset("orders", 0) == 3
        async with running_slave(copy, master.port, options):
            await until(lambda: store.max_offset("orders", 0) == 203)
        fill(store, 1)
        assert store.max_offset("orders", 0) == 203
    assert len(read_all(new_store_of(store))) == 204


def new_store_of(store: MessageStore) -> MessageStore:
    """The same folder, opened again."""
    assert isinstance(store.layout.root, Path)
    return new_store(store.env.files)  # type: ignore[arg-type]


@pytest.mark.parametrize("report", ["received", "flushed"])
async def test_slave_reports_as_it_is_told_to(report: str) -> None:
    options = replace(OPTIONS, report=report)  # type: ignore[arg-type]
    store, copy = new_store(), new_store()
    copy.env.files.fail("sync", part="commitlog")  # type: ignore[attr-defined]
    fill(store, 10)
    async with running_master(store, waits=True) as master, running_slave(copy, master.port, options):
        await until(lambda: copy.log.stored == store.log.stored)
        if report == "received":
            await until(lambda: master.acknowledged(1) == store.log.stored)
        else:
            await until(lambda: "flush" in copy.health.reasons)
            assert master.acknowledged(1) == 0
            copy.env.files.rules.clear()  # type: ignore[attr-defined]
            await until(lambda: master.acknowledged(1) == store.log.stored)


async def test_half_open_master_is_left_after_the_housekeeping_interval() -> None:
    clock = ManualClock()
    store = new_store()
    opened = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.set()
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    slave = HaSlave(store, OPTIONS, clock, f"127.0.0.1:{port}", epochs_of(store))
    slave.start()
    try:
        await until(opened.is_set)
        for _ in range(300):
            clock.advance(0.1)
            await asyncio.sleep(0)
        await until(lambda: slave.counts().get("silent_master", 0) >= 1)
    finally:
        await slave.stop()
        server.close()
