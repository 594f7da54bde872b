"""Metrics and readiness of a master and its slave."""

from pathlib import Path

from ariane.broker.server import Broker
from tests.ops.scraping import fetch_json, scrape, value
from tests.replication.brokers import Brokers, copied, until

ON = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0}


def endpoint(broker: Broker) -> str:
    return broker.monitor.endpoint.address


async def test_a_master_shows_how_far_its_slave_is(tmp_path: Path) -> None:
    async with Brokers.in_folder(tmp_path) as brokers:
        master = await brokers.master(**ON)
        slave = await brokers.slave(**ON)
        await brokers.talk(master).send_ok("orders", b"one")
        await copied(master, slave)
        await until(lambda: [progress.lag for progress in master.to_slaves.master.slaves] == [0])
        samples = await scrape(endpoint(master))
        assert value(samples, "rocketmq_broker_commitlog_diff", broker="pair") == 0
        assert (value(samples, "ariane_slaves"), value(samples, "ariane_slaves_in_sync")) == (1, 1)
        samples = await scrape(endpoint(slave))
        assert value(samples, "ariane_role", role="SLAVE") == 1
        assert value(samples, "ariane_replication_following") == 1
        assert value(samples, "ariane_replication_behind_bytes") == 0
        assert (await fetch_json(endpoint(slave), "/ready"))[0] == 200


async def test_a_slave_is_not_ready_without_its_master(tmp_path: Path) -> None:
    async with Brokers.in_folder(tmp_path) as brokers:
        slave = await brokers.slave(**ON)
        status, ready = await fetch_json(endpoint(slave), "/ready")
        assert status == 503
        assert ready["checks"]["following"] == {"ok": False, "reason": "the address of the master is not known yet"}
        await brokers.master()
        await slave.registration.register()
        await until(lambda: slave.from_master.slave is not None and slave.from_master.slave.state.connected)
        assert (await fetch_json(endpoint(slave), "/ready"))[0] == 200
        await brokers.stop("master")
        await until(lambda: slave.from_master.slave is not None and not slave.from_master.slave.state.connected)
        status, ready = await fetch_json(endpoint(slave), "/ready")
        assert (status, ready["checks"]["following"]["ok"]) == (503, False)
        assert ready["checks"]["writable"]["ok"], "a slave's store takes its master's bytes"
