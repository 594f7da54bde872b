"""Streams over a cluster that changes under them: new topics, new brokers, a broker that goes and comes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ariane.client.sync import Admin
from ariane.errors import BrokerRefused
from ariane.message import Message
from tests.cluster import Cluster, running_cluster
from tests.peers import unique
from tests.spark.clusters import Target, await_that, now_ms, numbered


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as cluster:
        cluster.start_broker("broker-a")
        yield cluster


@contextmanager
def into_memory(spark: Any, name_server: str, **options: Any) -> Iterator[Any]:
    """A stream of bodies; gives a function that collects the rows so far."""
    name = unique("memory")
    reader = spark.readStream.format("rocketmq").schema("topic string, brokerName string, body string")
    rows = reader.option("nameServer", name_server).options(routeRefreshMs=100, **options).load()
    query = rows.writeStream.format("memory").queryName(name).start()
    try:
        await_that("the first look", lambda: query.lastProgress)
        yield lambda: spark.table(name).collect()
    finally:
        query.stop()


def send(target: Target, topic: str, start: int, stop: int) -> None:
    target.send(topic, [Message(topic, b"%d" % i) for i in range(start, stop)], (0,))


def test_a_pattern_takes_in_topics_that_are_made_later(spark: Any, cluster: Cluster) -> None:
    target, family = Target(cluster.namesrv, "ours"), unique("family")
    first = target.topic(queues=1, name=f"{family}-1")
    with into_memory(spark, cluster.namesrv, topicPattern=f"{family}-.*") as rows:
        send(target, first, 0, 5)
        await_that("the first topic", lambda: len(rows()) == 5)
        second = target.topic(queues=1, name=f"{family}-2")
        send(target, second, 5, 10)
        await_that("the second topic", lambda: len(rows()) == 10)
        assert sorted((row.topic, int(row.body)) for row in rows()) == [
            *((first, i) for i in range(5)),
            *((second, i) for i in range(5, 10)),
        ]


def test_a_broker_that_joins_is_read_and_one_that_comes_back_goes_on(spark: Any, cluster: Cluster) -> None:
    target, topic = Target(cluster.namesrv, "ours"), unique("topic")
    target.topic(queues=1, name=topic)
    with into_memory(spark, cluster.namesrv, topic=topic, startingOffsets="earliest") as rows:
        send(target, topic, 0, 5)
        await_that("one broker", lambda: len(rows()) == 5)
        cluster.stop_broker("broker-a")
        cluster.start_broker("broker-b")
        with Admin(name_servers=cluster.namesrv) as admin:
            admin.create_topic(topic, queues=1)
        await_that("the new broker's queue", lambda: _has_queue(cluster.namesrv, topic, "broker-b"))
        send(target, topic, 5, 8)
        await_that("the new broker, while the old one is away", lambda: len(rows()) == 8)
        cluster.stop_broker("broker-b")
        cluster.start_broker("broker-a")
        await_that("the old broker's queue", lambda: _has_queue(cluster.namesrv, topic, "broker-a"))
        send(target, topic, 8, 10)
        await_that("the old broker", lambda: len(rows()) == 10)
        assert sorted(int(row.body) for row in rows()) == list(range(10))
        assert {row.brokerName for row in rows()} == {"broker-a", "broker-b"}


def _has_queue(name_server: str, topic: str, broker: str) -> bool:
    with Admin(name_servers=name_server) as admin:
        return [queue.broker_name for queue in admin.queues(topic)] == [broker]


def test_a_stream_begins_at_a_time_and_keeps_its_progress_to_itself_if_told_so(spark: Any, ours: Target) -> None:
    topic, group = ours.topic(queues=1), unique("group")
    ours.send(topic, numbered(topic, 10), (0,))
    after = max(message.store_time for message in ours.received(topic)) + 1
    await_that("the clock to go on", lambda: now_ms() > after)
    ours.send(topic, [Message(topic, b"%d" % i) for i in range(10, 20)], (0,))
    options = {"topic": topic, "startingTimestamp": after, "group": group, "commitOffsets": "false"}
    with into_memory(spark, ours.namesrv, **options) as rows:
        await_that("what came after", lambda: len(rows()) == 10)
        assert sorted(int(row.body) for row in rows()) == list(range(10, 20))
    with Admin(name_servers=ours.namesrv) as admin:
        (queue,) = admin.queues(topic)
        assert _committed(admin, group, queue) is None


def _committed(admin: Admin, group: str, queue: Any) -> int | None:
    try:
        return admin.committed(group, queue) or None
    except BrokerRefused:
        return None
