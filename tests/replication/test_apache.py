"""Replication with Apache's broker on either side: every byte of the log, topics, groups and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ariane.broker.server import Broker
from ariane.errors import ArianeError
from ariane.protocol.bodies import ConsumerOffsetTable, SubscriptionGroupTable, TopicConfigTable
from ariane.protocol.codes import RequestCode
from tests.cluster import Cluster, running_cluster
from tests.peers import ApacheBroker, Driver, unique
from tests.peers.fixtures import QUICK
from tests.peers.jvm import until
from tests.peers.messages import outgoing

NAME = "mixed"
FILE = 1 << 20
SAME = {"brokerName": NAME, "mappedFileSizeCommitLog": FILE, **QUICK}
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}
ApacheStarter = Callable[..., ApacheBroker]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Our name server."""
    with running_cluster(tmp_path) as running:
        yield running


def send_every_kind(java: Driver, namesrv: str, topic: str, count: int) -> None:
    """Messages with keys, tags and properties, a batch, a delayed one, transactions that commit and roll back."""
    with java.producer(namesrv) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number * 1000, tags="T", keys=[f"k{number}"], properties={"n": str(number)})
        producer.send_batch([outgoing(topic, b"batch %d" % n) for n in range(10)])
        producer.send(topic, b"later", delay_level=3)
    with java.transaction_producer(namesrv) as producer:
        producer.send_in_transaction(topic, b"committed", "COMMIT_MESSAGE")
        producer.send_in_transaction(topic, b"rolled back", "ROLLBACK_MESSAGE")


def log_bytes(store: Path, end: int) -> bytes:
    """The log from its first file to `end`."""
    files = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    first = int(files[0].name)
    return b"".join(path.read_bytes() for path in files)[: end - first]


def ask(cluster: Cluster, broker: Broker, address: str, code: RequestCode) -> bytes:
    return cluster.run(broker.peers.ask(address, code)).body


def await_copy(cluster: Cluster, ours: Broker, master: str, slave: str) -> int:
    """Wait until the slave has the master's log and tables; return the end of the log."""
    ends: list[int] = []

    def same_log() -> bool:
        try:
            ends[:] = [cluster.run(ours.peers.state(address)).log_max for address in (master, slave, master)]
        except ArianeError:  # it starts
            return False
        return len(set(ends)) == 1 and ends[0] > 0

    def same_tables() -> bool:
        return all(
            table.decode(ask(cluster, ours, master, code)) == table.decode(ask(cluster, ours, slave, code))
            for code, table in (
                (RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable),
                (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupTable),
                (RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable),
            )
        )

    until(same_log, 120, "the slave's log")
    until(same_tables, 60, "the slave's tables")
    assert same_log()
    return ends[0]


def test_apaches_slave_follows_our_master_over_restarts(
    cluster: Cluster, apache_broker: ApacheStarter, java: Driver, tmp_path: Path
) -> None:
    topic = unique("topic")
    master = cluster.start_broker(NAME, **SAME)
    slave = apache_broker(cluster.namesrv, config={**SAME, **SLAVE})
    send_every_kind(java, cluster.namesrv, topic, 30)
    with java.push_consumer(cluster.namesrv, topic, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET") as consumer:
        consumer.await_messages(42)
        consumer.persist_offsets()
    until(lambda: not master.clients.consumer_group(consumer.group or ""), 60, "the consumer's leave")
    end = await_copy(cluster, master, master.address, slave.address)
    assert log_bytes(slave.store, end) == log_bytes(tmp_path / NAME, end)
    rows = [line.split()[:4] for line in java.mqadmin("clusterList", "-n", cluster.namesrv).splitlines()]
    assert ["DefaultCluster", NAME, "0", master.address] in rows
    assert ["DefaultCluster", NAME, "1", slave.address] in rows
    assert "haSlave_127.0.0.1" in java.mqadmin("brokerStatus", "-n", cluster.namesrv, "-b", master.address)
    slave.stop()
    send_every_kind(java, cluster.namesrv, topic, 10)
    cluster.stop_broker(NAME)
    master = cluster.start_broker(NAME, **SAME, listenPort=master.port)
    slave.restart()
    end = await_copy(cluster, master, master.address, slave.address)
    assert log_bytes(slave.store, end) == log_bytes(tmp_path / NAME, end)


def test_our_slave_follows_apaches_master_from_the_first_file_over_restarts(
    cluster: Cluster, apache_broker: ApacheStarter, java: Driver, tmp_path: Path
) -> None:
    topic, group = unique("topic"), unique("group")
    master = apache_broker(cluster.namesrv, config=SAME)
    with java.producer(cluster.namesrv) as producer:
        for number in range(30):  # more than two files
            producer.send(topic, b"%02d" % number * 50_000)
    slave = cluster.start_slave(**SAME)
    send_every_kind(java, cluster.namesrv, topic, 10)
    options: dict[str, Any] = {"group": group, "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
    with java.push_consumer(cluster.namesrv, topic, **options) as consumer:
        consumer.await_messages(52)
        consumer.persist_offsets()
    end = await_copy(cluster, slave, master.address, slave.address)
    assert cluster.call(lambda: slave.store.log_min) == 0
    assert log_bytes(tmp_path / "slave", end) == log_bytes(master.store, end)
    assert "following" in java.mqadmin("brokerStatus", "-n", cluster.namesrv, "-b", slave.address)
    cluster.stop_broker("slave")
    send_every_kind(java, cluster.namesrv, topic, 5)
    slave = cluster.start_slave(**SAME, listenPort=slave.port)
    end = await_copy(cluster, slave, master.address, slave.address)
    assert log_bytes(tmp_path / "slave", end) == log_bytes(master.store, end)
    master.kill()  # its slave serves what it has, to a consumer that comes now
    until(lambda: set(cluster.run(slave.peers.same_name())) == {1}, 60, "the end of the master's route")
    with java.push_consumer(cluster.namesrv, topic, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET") as consumer:
        assert len(consumer.await_messages(69)) >= 69
