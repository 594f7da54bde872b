"""Forged offsets, garbage and idle peers on the replication port get nothing."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from ariane.env import ManualClock
from ariane.ha import HaMaster, Replicated
from ariane.protocol.ha import GREETING, HEAD, REPORT
from ariane.store import PutStatus
from tests.ha.nodes import OPTIONS, epochs_of, new_store, running_master, running_slave, until
from tests.store.units import fill, unit


async def closed(reader: asyncio.StreamReader) -> None:
    """Wait until the master has closed the connection."""
    try:
        while await asyncio.wait_for(reader.read(1 << 16), 60):
            pass
    except ConnectionError:
        pass


@pytest.mark.parametrize(
    "data",
    [
        REPORT.pack(1 << 40),
        REPORT.pack((1 << 63) - 1),
        REPORT.pack(-2),
        REPORT.pack(-(1 << 63)),
        b"GET / HTTP/1.1\r\n\r\n",
        REPORT.pack(0) + REPORT.pack(1 << 40),  # a report of what was never sent
        REPORT.pack(GREETING) + b"\0" * 12,
        REPORT.pack(GREETING) + HEAD.pack(GREETING, 1 << 30),
        REPORT.pack(GREETING) + HEAD.pack(GREETING, 40) + b"x" * 40,
    ],
)
async def test_forged_report_is_dropped_and_acknowledges_nothing(data: bytes) -> None:
    store = new_store()
    fill(store, 100)
    async with running_master(store, waits=True) as master:
        replicated = Replicated(store, master, OPTIONS, store.env.clock)
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(data)
        await closed(reader)
        assert any(name.startswith("refused_") for name in master.counts())
        statuses: list[PutStatus] = []
        replicated.wait(store.append(unit()), statuses.append)
        assert statuses == [PutStatus.SLAVE_NOT_AVAILABLE]
        assert master.acknowledged(1) == 0
        writer.close()


async def test_start_before_the_first_file_is_refused() -> None:
    store = new_store()
    fill(store, 600, size=500)
    store.log.drop_first().close()
    async with running_master(store) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(REPORT.pack(100))
        await closed(reader)
        assert master.counts()["refused_range"] == 1
        writer.close()


async def test_random_bytes_never_break_the_master() -> None:
    store, copy = new_store(), new_store()
    fill(store, 50)
    random = Random(7)
    async with running_master(store, waits=True) as master:
        for _ in range(100):
            _, writer = await asyncio.open_connection("127.0.0.1", master.port)
            writer.write(random.randbytes(random.randrange(1, 64)))
            writer.close()
        async with running_slave(copy, master.port):
            await until(lambda: master.acknowledged(1) == store.log.stored)


async def test_a_thousand_silent_connections_leave_room_for_the_slave() -> None:
    store, copy = new_store(), new_store()
    fill(store, 50)
    options = replace(OPTIONS, max_connections=8)
    async with running_master(store, options, waits=True) as master:
        writers = []
        for _ in range(1000):
            _, writer = await asyncio.open_connection("127.0.0.1", master.port)
            writers.append(writer)
        await until(lambda: master.counts()["connections"] == 1000)
        async with running_slave(copy, master.port):
            await until(lambda: master.acknowledged(1) == store.log.stored)
            assert master.counts()["refused_full"] >= 992
        for writer in writers:
            writer.close()


async def test_only_allowed_addresses_are_served() -> None:
    store, copy = new_store(), new_store()
    fill(store, 5)
    async with running_master(store, replace(OPTIONS, allowed=("10.1.0.0/16",))) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        await closed(reader)
        assert master.counts()["refused_address"] == 1
        writer.close()
    async with (
        running_master(new_store(store.env.files), replace(OPTIONS, allowed=("127.0.0.0/8",))) as master,
        running_slave(copy, master.port),
    ):
        await until(lambda: copy.log.stored == store.log.stored)


async def test_plain_peer_needs_the_allow_list_where_a_key_is_set() -> None:
    store = new_store()
    fill(store, 5)
    async with running_master(store, replace(OPTIONS, key="secret")) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(REPORT.pack(0))
        await closed(reader)
        assert master.counts()["refused_key"] == 1
        writer.close()
        master.options = replace(OPTIONS, key="secret", allowed=("127.0.0.1",))
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(REPORT.pack(0))
        assert len(await reader.readexactly(store.log.stored + 12)) > 12
        writer.close()


async def test_peers_that_never_report_or_never_read_are_dropped() -> None:
    clock = ManualClock()
    store = new_store(file_size=1 << 22)
    fill(store, 4000, size=2000)
    master = HaMaster(store, OPTIONS, clock, epochs_of(store), waits=True)
    await master.start("127.0.0.1", 0)
    try:
        silent_reader, silent = await asyncio.open_connection("127.0.0.1", master.port)
        _, deaf = await asyncio.open_connection("127.0.0.1", master.port, limit=1)
        deaf.transport.pause_reading()  # type: ignore[attr-defined]
        deaf.write(REPORT.pack(0))
        await until(lambda: len(master.slaves) == 1)
        for _ in range(20):  # the deaf one goes on reporting, also after slice on slice has filled its buffers
            if not master.slaves:
                break
            clock.advance(2.5)
            deaf.write(REPORT.pack(0))
            await until(lambda: master.slaves == [] or master.slaves[0].acknowledged == 0)
            await asyncio.sleep(0.01)
            master.tick()
        await closed(silent_reader)
        await until(lambda: master.slaves == [])
        assert master.counts()["refused_silent"] >= 1
        assert master.counts()["refused_slow"] == 1
        silent.close()
        deaf.close()
    finally:
        await master.stop()


async def test_refusals_of_one_host_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store = new_store()
    async with running_master(store) as master:
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
            writer.write(REPORT.pack(1 << 40))
            await closed(reader)
            writer.close()
        assert master.counts()["refused_range"] == 20
    assert sum("is refused" in record.getMessage() for record in caplog.records) == 1


async def test_master_that_stops_takes_no_slave_that_was_accepted_late() -> None:
    store = new_store()
    fill(store, 5)
    async with running_master(store) as master:
        late = master.accept()
        await master.stop()
        aborted: list[bool] = []

        class Transport(asyncio.Transport):
            def abort(self) -> None:
                aborted.append(True)

            def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
                pass

        late.connection_made(Transport())
        assert aborted == [True]
        assert master.slaves == []


async def test_long_greeting_of_an_unknown_peer_is_refused_at_its_head() -> None:
    store = new_store()
    async with running_master(store) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(REPORT.pack(GREETING))
        await reader.readexactly(HEAD.size)
        writer.write(HEAD.pack(GREETING, 1 << 20))
        await until(lambda: master.counts().get("refused_garbage") == 1)
        writer.close()
