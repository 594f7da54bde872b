"""A slave follows a master over loopback."""

from tests.ha.nodes import log_bytes, new_store, running_master, running_slave, until
from tests.store.units import fill, read_all


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
