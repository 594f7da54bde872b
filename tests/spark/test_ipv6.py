"""Messages that came over IPv6 to brokers with an IPv6 address: their units have longer hosts, which move the rest."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import running_cluster
from tests.peers import ApacheBroker, ApacheNamesrv, Driver
from tests.spark.clusters import Target, numbered

STACK = {"java.net.preferIPv4Stack": "false"}
COUNT = 100


@pytest.fixture(params=["ours", "apache"])
def over_ipv6(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    apache_namesrv: Callable[..., ApacheNamesrv],
    apache_broker: Callable[..., ApacheBroker],
) -> Iterator[Target]:
    """A cluster whose only broker is at ::1."""
    if request.param == "apache":
        namesrv = apache_namesrv().address
        apache_broker(namesrv, config={"brokerIP1": "::1"}, props=STACK)
        yield Target(namesrv, "apache")
        return
    with running_cluster(tmp_path) as cluster:
        cluster.start_broker(brokerIP1="::1", bindAddress="::1")
        yield Target(cluster.namesrv, "ours")


def test_ipv6_hosts_are_read_and_what_lies_behind_them(
    spark: Any, over_ipv6: Target, java_with: Callable[..., Driver]
) -> None:
    topic = over_ipv6.topic(queues=1)
    over_ipv6.send(topic, numbered(topic, COUNT), queue_ids=(0,))
    with java_with(STACK).producer(over_ipv6.namesrv) as producer:
        producer.send(topic, b"from Java", tags="J", keys="from-java")
    over_ipv6.settle()
    reader = spark.read.format("rocketmq").option("nameServer", over_ipv6.namesrv).option("topic", topic)
    rows = sorted(reader.load().collect(), key=lambda row: row.queueOffset)
    assert [bytes(row.body) for row in rows] == [b"%020d" % i for i in range(COUNT)] + [b"from Java"]
    assert [row.keys for row in rows] == [f"k{i}" for i in range(COUNT)] + ["from-java"]
    assert {row.bornHost.rpartition(":")[0].strip("[]") for row in rows} == {"::1"}
    assert {row.storeHost.rpartition(":")[0].strip("[]") for row in rows} == {"::1"}
    assert {row.sysFlag & 0x30 for row in rows} == {0x30}  # both hosts are of IPv6
