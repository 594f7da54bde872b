"""An old master beside one that was promoted, with the name server of Apache, which knows no epochs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ariane.broker.server import Broker
from ariane.protocol.codes import PROMOTE_BROKER, ResponseCode
from tests.broker.talk import Talk, small_options
from tests.peers import ApacheNamesrv, free_port
from tests.replication.brokers import copied, ok, until


async def test_an_old_master_finds_the_newer_one_through_apaches_name_server(
    apache_namesrv: Callable[..., ApacheNamesrv], tmp_path: Path
) -> None:
    names = (await asyncio.to_thread(apache_namesrv)).address

    def broker(folder: str, **changes: object) -> Broker:
        changes = {"brokerName": "pair", "namesrvAddr": names, "listenPort": free_port(-2, 1), **changes}
        return Broker(small_options(tmp_path / folder, **changes))

    master, slave = broker("master"), broker("slave", brokerRole="SLAVE", brokerId=1)
    async with Talk.to(master) as to_master, Talk.to(slave) as to_slave:
        await to_master.send_ok("orders", b"one")
        await copied(master, slave)
        ok(await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair", "force": "true"}))
        await until(lambda: master.role.is_slave)
        assert (await to_master.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        await to_slave.send_ok("orders", b"two")
        await copied(slave, master)
        assert await slave.peers.same_name() == {0: {slave.address}, 1: {master.address}}
