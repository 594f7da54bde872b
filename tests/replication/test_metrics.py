"""Metrics and readiness of a master and its slave."""

from pathlib import Path

from ariane import aio
from ariane.broker.server import Broker
from ariane.protocol.codes import RequestCode, ResponseCode
from tests.broker.operating import commit
from tests.ops.scraping import fetch_json, scrape, value
from tests.replication.brokers import Brokers, copied, until

ON = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0}
FLUSHING = ON | {"flushCommitLogThoroughInterval": 100}  # ms; a slave reports what it has flushed, be it a single page


def endpoint(broker: Broker) -> str:
    return broker.monitor.endpoint.address


async def test_a_master_shows_how_far_its_slave_is(tmp_path: Path) -> None:
    async with Brokers.in_folder(tmp_path) as brokers:
        master = await brokers.master(**ON)
        slave = await brokers.slave(**FLUSHING)
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


async def test_metrics_and_the_admin_client_agree_on_the_lag_of_a_group(tmp_path: Path) -> None:
    async with Brokers.in_folder(tmp_path) as brokers:
        broker = await brokers.master(**ON)
        talk = brokers.talk(broker)
        talk.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda request: request.reply(ResponseCode.SYSTEM_ERROR)
        await talk.heartbeat("workers", {"orders": "*"})
        for number in range(9):
            await talk.send_ok("orders", queue_id=number % 4)
        for queue_id, offset in enumerate((1, 3, 0, 2)):
            await commit(talk, "orders", offset, queue_id)
        async with aio.Admin(name_servers=brokers.name_server.address) as admin:
            lag = await admin.group_lag("workers", "orders")
        samples = await scrape(endpoint(broker))
        assert (
            lag.lag == value(samples, "rocketmq_consumer_lag_messages", consumer_group="workers", topic="orders") == 4
        )
        by_queue = {labels["queue"]: count for labels, count in samples["ariane_queue_lag_messages"]}
        assert {str(one.queue.queue_id): one.lag for one in lag.queues if one.lag} == by_queue
        late = value(samples, "rocketmq_consumer_lag_latency", consumer_group="workers", topic="orders")
        assert lag.behind_ms <= late, "the scrape came after the question"
