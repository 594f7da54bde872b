"""Both machines lose power at once: what is on the slave's disk when the master has acknowledged.

On disks in memory that forget what was not synced. Real disks need loop devices and root; the store's own power cuts on
such disks are in tests/store/test_power_cut.py.
"""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from ariane.ha import Replicated
from ariane.ha.options import ReportKind
from ariane.store import PutStatus
from ariane.testing.faults import MemoryFiles
from tests.ha.nodes import OPTIONS, new_store, running_master, running_slave, until
from tests.store.units import read_all, unit

ROUNDS = 8


async def lost_in_a_power_cut(report: ReportKind, seed: int) -> tuple[int, int]:
    """How many messages were acknowledged, and how many of them the slave lacks after a power cut of both."""
    random = Random(seed)
    files = MemoryFiles()
    master_store, slave_store = new_store(), new_store(files)
    options = replace(OPTIONS, report=report)
    acknowledged: set[bytes] = set()
    async with running_master(master_store, waits=True) as master, running_slave(slave_store, master.port, options):
        await until(lambda: master.in_sync() == 1)
        replicated = Replicated(master_store, master, OPTIONS, master_store.env.clock)
        sent = 0
        wanted = random.randrange(20, 60)

        def answered(body: bytes, status: PutStatus) -> None:
            if status is PutStatus.OK:
                acknowledged.add(body)

        while len(acknowledged) < wanted:
            for _ in range(random.randrange(1, 5)):
                body = b"%06d" % sent
                sent += 1
                nul = {"pad": "\0" * random.choice((0, 600, 1100))}
                result = master_store.append(unit(body=body, **nul))
                replicated.wait(result, lambda status, body=body: answered(body, status))  # type: ignore[misc]
            master_store.dispatch_now()
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
        promised = set(acknowledged)
        disk = files.after_power_cut()  # at this moment; what is acknowledged later does not count
        replicated.close()
    found = {message.body for message in read_all(new_store(disk))}
    return len(promised), len(promised - found)


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_slave_that_reports_what_is_flushed_has_every_acknowledged_message(seed: int) -> None:
    acknowledged, lost = await lost_in_a_power_cut("flushed", seed)
    assert acknowledged >= 20
    assert lost == 0


async def test_slave_that_reports_as_apaches_does_lacks_some() -> None:
    """The same power cut loses messages where a report means "received"; else the test above would prove nothing."""
    lost = 0
    for seed in range(ROUNDS):
        lost += (await lost_in_a_power_cut("received", seed))[1]
    assert lost > 0


async def test_slave_whose_disk_fails_acknowledges_nothing_when_it_connects_again() -> None:
    files = MemoryFiles()
    master_store, slave_store = new_store(), new_store(files)
    async with running_master(master_store, waits=True) as master, running_slave(slave_store, master.port) as slave:
        await until(lambda: master.in_sync() == 1)
        highest: list[int] = []
        master.on_acknowledged.append(lambda: highest.append(master.acknowledged(1)))
        rule = files.fail("sync", part="commitlog")
        first = master_store.append(unit(body=b"received, not durable"))
        master_store.dispatch_now()
        await until(lambda: slave_store.log.stored == first.end_offset)
        await until(lambda: not slave_store.writable, "the failed flush")
        master_store.append(unit(body=b"refused by the slave"))
        master_store.dispatch_now()
        for _ in range(3):
            lost = slave.counts().get("lost", 0)
            await until(lambda: slave.counts().get("lost", 0) > lost, "another attempt")  # noqa: B023
        assert max(highest, default=0) < first.end_offset
        files.rules.remove(rule)
        slave_store.flusher.begin()
        await until(lambda: master.acknowledged(1) == master_store.log.stored, "a disk that works again")
        assert slave_store.log.flushed == master_store.log.stored
