"""What mqadmin prints of our cluster is what it prints of Apache's."""

import re
from dataclasses import dataclass

import pytest

from tests.cluster import Cluster
from tests.peers import Driver, Queue, unique
from tests.peers.fixtures import ApacheCluster


@dataclass(frozen=True)
class Side:
    """One of the two clusters, and how to make its texts comparable."""

    java: Driver
    namesrv: str
    broker: str
    broker_name: str

    def mqadmin(self, *args: str) -> str:
        text = self.java.mqadmin(*(a.replace("BROKER", self.broker) for a in args), "-n", self.namesrv)
        text = text.replace(self.broker_name, "NAME").replace(self.broker, "ADDRESS")
        return re.sub(r"[ \t]+", " ", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", "TIME", text))


@pytest.fixture(scope="module")
def sides(cluster: Cluster, apache_cluster: ApacheCluster, java: Driver) -> list[Side]:
    ours = Side(java, cluster.namesrv, cluster.broker_address, cluster.broker.options.broker_name)
    apaches = Side(java, apache_cluster.namesrv, apache_cluster.broker.address, apache_cluster.broker.name)
    return [ours, apaches]


def same(sides: list[Side], *args: str) -> str:
    """Run a command against both; the texts must be the same."""
    ours, apaches = (side.mqadmin(*args) for side in sides)
    assert ours == apaches
    return ours


def test_update_topic_then_route_and_status(sides: list[Side], apache_cluster: ApacheCluster, java: Driver) -> None:
    topic = unique("topic")
    assert "success" in same(sides, "updateTopic", "-b", "BROKER", "-t", topic, "-r", "6", "-w", "5", "-p", "6")
    assert '"readQueueNums":6' in same(sides, "topicRoute", "-t", topic)
    assert "#BrokerName" in same(sides, "topicRoute", "-t", topic, "-l")
    for side in sides:
        with java.producer(side.namesrv) as producer:
            producer.send(topic, b"one", queue=Queue(topic, side.broker_name, 3))
    apache_cluster.broker.await_dispatch()
    status = same(sides, "topicStatus", "-t", topic)
    assert re.search(r"NAME 3 0 1 TIME", status)


def test_update_topic_by_cluster_and_permission(sides: list[Side]) -> None:
    topic = unique("topic")
    same(sides, "updateTopic", "-c", "DefaultCluster", "-t", topic)
    same(sides, "updateTopicPerm", "-b", "BROKER", "-t", topic, "-p", "4")
    assert '"perm":4' in same(sides, "topicRoute", "-t", topic)


@pytest.mark.parametrize("name", ["TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_mine", "bad*name", "n" * 128])
def test_a_topic_that_may_not_be_made_is_refused_with_the_same_words(sides: list[Side], name: str) -> None:
    ours, apaches = (side.mqadmin("updateTopic", "-b", "BROKER", "-t", name) for side in sides)
    assert _reason(ours) == _reason(apaches) != ""


def _reason(text: str) -> str:
    found = re.search(r"DESC: [^\n]*", text)
    return re.sub(r"For more information.*", "", found.group()) if found else text


def test_cluster_list(sides: list[Side]) -> None:
    ours, apaches = (side.mqadmin("clusterList").split("\n") for side in sides)
    assert ours[0] == apaches[0]
    assert ours[1].split()[:5] == apaches[1].split()[:5] == ["DefaultCluster", "NAME", "0", "ADDRESS", "V4_9_7"]
    assert len(ours[1].split()) == len(apaches[1].split())
    headings = {side.mqadmin("clusterList", "-m").split("\n")[0] for side in sides}
    assert len(headings) == 1


def test_topic_list(sides: list[Side]) -> None:
    ours, apaches = (set(side.mqadmin("topicList").split()) for side in sides)
    system = {"SCHEDULE_TOPIC_XXXX", "NAME", "DefaultCluster_REPLY_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT"}
    system |= {"TBW102", "SELF_TEST_TOPIC", "DefaultCluster"}
    assert system <= ours
    assert system <= apaches
    headings = {side.mqadmin("topicList", "-c").split("\n")[0] for side in sides}
    assert len(headings) == 1


def test_broker_status_has_the_same_keys_and_the_role(sides: list[Side]) -> None:
    ours, apaches = (_keys(side.mqadmin("brokerStatus", "-b", "BROKER")) for side in sides)
    assert ours - {"brokerEpoch", "brokerId", "brokerRole", "brokerWritable", "haServerAddr"} == apaches


def _keys(text: str) -> set[str]:
    keys = {line.partition(":")[0].strip() for line in text.splitlines() if ":" in line}
    keys = {key for key in keys if not key.startswith("scheduleMessageOffset_")}  # of levels used by other tests
    return {"commitLogDiskRatio_PATH" if key.startswith("commitLogDiskRatio_") else key for key in keys}
