"""One broker goes on where the other stopped: waiting and undecided messages pass between Apache's broker and ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.interop.quick import FIRST
from tests.peers import ApacheBroker, Driver, unique, until
from tests.peers.fixtures import QUICK

# Apache's broker takes a store only with the file sizes it was written with.
SIZES: dict[str, Any] = {
    "mappedFileSizeCommitLog": 104857600,
    "mappedFileSizeConsumeQueue": 6000000,
    "maxIndexNum": 1000,
    "maxHashSlotNum": 4000,
}
PATIENT = {**QUICK, "transactionTimeOut": 3_600_000, "messageDelayLevel": " ".join(["3s"] * 18)}


EVERYTHING = {b"committed", b"delayed", b"undecided"}


def leave_work(java: Driver, namesrv: str, topic: str, group: str) -> None:
    """A delayed message, a committed and an undecided transaction."""
    with java.transaction_producer(namesrv, group) as producer:
        producer.send_in_transaction(topic, "committed", "COMMIT_MESSAGE")
        producer.send_in_transaction(topic, "undecided", "UNKNOW")
        producer.send(topic, "delayed", delay_level=2)


def see_it_done(java: Driver, namesrv: str, topic: str, group: str) -> None:
    """Everything arrives, the undecided after a check (or two, where the answer to the first takes its time)."""
    with (
        java.transaction_producer(namesrv, group, answers=["COMMIT_MESSAGE"]) as producer,
        java.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer,
    ):
        until(lambda: {m.body for m in consumer.messages()} == EVERYTHING, 60, "every message")
        assert {check.body for check in producer.await_checks(1)} == {b"undecided"}


def test_apaches_broker_finishes_what_ours_began(
    new_cluster: Cluster, java: Driver, apache_broker: Callable[..., ApacheBroker], tmp_path: Path
) -> None:
    topic, group = unique("topic"), unique("group")
    broker = new_cluster.start_broker("passed-on", **SIZES, **PATIENT)
    port, store = broker.port, Path(broker.options.store_path_root_dir)
    leave_work(java, new_cluster.namesrv, topic, group)
    new_cluster.stop_broker("passed-on")
    apache_broker(new_cluster.namesrv, store=store, port=port, config={"brokerName": "passed-on", **QUICK})
    see_it_done(java, new_cluster.namesrv, topic, group)


def test_our_broker_finishes_what_apaches_began(
    new_cluster: Cluster, java: Driver, apache_broker: Callable[..., ApacheBroker]
) -> None:
    topic, group = unique("topic"), unique("group")
    new_cluster.start_name_server()
    apaches = apache_broker(new_cluster.namesrv, config={"brokerName": "passed-on", **PATIENT})
    leave_work(java, new_cluster.namesrv, topic, group)
    apaches.stop()
    places = {"storePathRootDir": apaches.store, "storePathCommitLog": apaches.store / "commitlog"}
    new_cluster.start_broker("passed-on", listenPort=apaches.port, **SIZES, **QUICK, **places)
    see_it_done(java, new_cluster.namesrv, topic, group)
