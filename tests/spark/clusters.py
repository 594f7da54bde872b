"""The clusters that the source and sink tests run against, and what fills and empties them."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from ariane import Admin, Producer, PullClient
from ariane.env import SystemClock
from ariane.errors import RouteMissing
from ariane.message import Message, MessageQueue, ReceivedMessage
from ariane.spark.cluster import Cluster
from tests.client.newer import WANTED
from tests.cluster import running_cluster
from tests.peers import unique

T = TypeVar("T")

DEADLINE = 60.0
LARGE_PULLS = {
    f"maxTransfer{what}OnMessageIn{where}": limit
    for what, limit in (("Count", 4096), ("Bytes", 1 << 20))
    for where in ("Memory", "Disk")
}  # so that tests with many messages are quick; Apache's broker keeps its small defaults


def await_that(what: str, holds: Callable[[], T]) -> T:
    """Ask again until the answer is true."""
    end = time.monotonic() + DEADLINE
    while not (answer := holds()):
        if time.monotonic() > end:
            pytest.fail(f"{what}: not in {DEADLINE:g} s")
        threading.Event().wait(0.05)
    return answer


class WaitingCluster(Cluster):
    """A cluster whose time passes only while somebody waits."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def pause(self, seconds: float) -> None:
        self.passed += seconds


def now_ms() -> int:
    """The time by which brokers store messages."""
    return SystemClock().now_ms()


@dataclass(frozen=True)
class Target:
    """A cluster by its name server."""

    namesrv: str
    kind: str

    def topic(self, queues: int = 4, name: str = "") -> str:
        """A new topic, or more queues for one that is there."""
        name = name or unique("topic")
        with Admin(name_servers=self.namesrv) as admin:
            admin.create_topic(name, queues=queues)
            await_that(f"{name} with {queues} queues", lambda: len(_queues(admin, name)) == queues)
        return name

    def send(self, topic: str, messages: Sequence[Message], queue_ids: Sequence[int] = (0, 1, 2, 3)) -> None:
        """Store messages, in turns in these queues."""
        with Producer(unique("producer"), name_servers=self.namesrv) as producer:
            broker = producer.queues(topic)[0].broker_name
            for index, queue_id in enumerate(queue_ids):
                part = list(messages[index :: len(queue_ids)])
                for at in range(0, len(part), 2000):
                    producer.send_batch(part[at : at + 2000], queue=MessageQueue(topic, broker, queue_id), timeout=60)
        self.settle()

    def settle(self) -> None:
        """Wait until all that was stored is in its queues: Apache's broker brings it there a little later."""
        if self.kind == "apache":
            with Admin(name_servers=self.namesrv) as admin:
                [address] = admin.masters()
                await_that("dispatch", lambda: admin.broker_stats(address)["dispatchBehindBytes"] == "0")

    def received(self, topic: str) -> list[ReceivedMessage]:
        """Everything in a topic, queue by queue."""
        self.settle()
        found: list[ReceivedMessage] = []
        with PullClient(name_servers=self.namesrv) as reader:
            for queue in reader.queues(topic):
                at, end = reader.min_offset(queue), reader.max_offset(queue)
                while at < end:
                    result = reader.pull_messages(queue, at, 1000)
                    found += result
                    at = result[-1].queue_offset + 1
        return found

    def __str__(self) -> str:
        return self.kind


def _queues(admin: Admin, topic: str) -> list[MessageQueue]:
    try:
        return admin.queues(topic)
    except RouteMissing:
        return []


def numbered(topic: str, count: int, size: int = 20) -> list[Message]:
    """Messages that differ in everything a column shows."""
    return [
        Message(topic, b"%0*d" % (size, i), tags=f"Tag{i % 3}", keys=[f"k{i}"], properties={"n": str(i)})
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Our name server and broker, in this process."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_broker(**LARGE_PULLS)
        yield Target(cluster.namesrv, "ours")


@pytest.fixture
def apache(apache_cluster: Any) -> Target:
    """Apache's."""
    return Target(apache_cluster.namesrv, "apache")


@pytest.fixture
def newer(apache5: str) -> Target:
    """Apache's of RocketMQ 5."""
    return Target(apache5, "apache")


@pytest.fixture(params=["ours", "apache", "newer"] if WANTED else ["ours", "apache"])
def target(request: pytest.FixtureRequest) -> Target:
    """Each in turn, and with ROCKETMQ5=1 in the environment Apache's of RocketMQ 5: the contract is the same."""
    target: Target = request.getfixturevalue(request.param)
    return target
