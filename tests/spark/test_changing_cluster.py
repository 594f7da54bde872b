"""Streams over a cluster that changes under them: new topics, new brokers, a broker that goes and comes back."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ariane import Admin
from ariane.errors import BrokerRefused, StoreError
from ariane.message import Message, MessageQueue
from ariane.spark.arrow.schema import default_schema
from ariane.spark.cluster import Bounds
from ariane.spark.offsets import from_json, to_json
from ariane.spark.topic.options import TopicOptions
from ariane.spark.topic.stream import TopicStream
from tests.cluster import Cluster, running_cluster
from tests.peers import free_port, unique
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


def to_the_present(spark: Any, target: Target, topic: str, table: Path, **options: Any) -> list[int]:
    """What a table has of a topic after a stream has read to the present into it."""
    reader = spark.readStream.format("rocketmq").schema("body string").option("nameServer", target.namesrv)
    rows = reader.option("topic", topic).option("startingOffsets", "earliest").options(**options).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{table}-checkpoint")
    writer.trigger(availableNow=True).start(str(table)).awaitTermination()
    return sorted(int(row.body) for row in spark.read.parquet(str(table)).collect())


def test_a_topic_that_was_made_anew_is_an_error_or_read_from_its_new_end(
    spark: Any, target: Target, tmp_path: Path
) -> None:
    topic, table = target.topic(queues=1), tmp_path / "table"
    send(target, topic, 0, 10)
    assert to_the_present(spark, target, topic, table) == list(range(10))
    with Admin(name_servers=target.namesrv) as admin:
        admin.delete_topic(topic)
        await_that("the end of the topic", lambda: topic not in admin.topics())
    target.topic(queues=1, name=topic)
    send(target, topic, 10, 14)
    with pytest.raises(Exception, match=rf"topic {topic}.*offset 10 is not there.* 0 to 4.*created again"):
        to_the_present(spark, target, topic, table)
    assert to_the_present(spark, target, topic, table, failOnDataLoss=False) == list(range(10))
    send(target, topic, 14, 20)
    assert to_the_present(spark, target, topic, table) == [*range(10), *range(14, 20)]


def test_only_a_master_can_have_lost_what_was_read_and_a_slave_may_be_behind(cluster: Cluster, tmp_path: Path) -> None:
    target = Target(cluster.namesrv, "ours")
    topic = target.topic(queues=1)
    queue, schema = MessageQueue(topic, "broker-a", 0), default_schema(broker_known=True)
    send(target, topic, 0, 10)
    given = {"nameserver": cluster.namesrv, "topic": topic, "startingoffsets": "earliest", "routerefreshms": "1"}
    strict, lenient = (
        TopicStream(TopicOptions.parse(given | {"failondataloss": fail}, streaming=True), schema)
        for fail in ("true", "false")
    )
    try:
        start, limit = strict.initialOffset(), ReadAllAvailable()
        end = strict.latestOffset(start, limit)
        assert from_json(end) == {queue: 10}
        _start_slave_without_copies(cluster, tmp_path)
        cluster.stop_broker("broker-a")
        await_that(
            "the slave alone", lambda: strict.latestOffset(end, limit) and _bounds(strict, queue) == Bounds(0, 0)
        )
        assert strict.latestOffset(end, limit) == lenient.latestOffset(end, limit) == end
        cluster.start_broker(
            "broker-a", storePathRootDir=tmp_path / "b", storePathCommitLog=tmp_path / "b" / "commitlog"
        )
        target.topic(queues=1, name=topic)
        send(target, topic, 10, 14)
        with pytest.raises(StoreError, match="offset 10 is not there, the broker has 0 to 4"):
            await_that("the new master", lambda: strict.latestOffset(end, limit) != end)
        await_that("the new master", lambda: from_json(lenient.latestOffset(end, limit)) == {queue: 4})
        planned = from_json(end) | {queue: 12}  # by a driver that was killed then
        with pytest.raises(StoreError, match="offset 12 is not there, the broker has 0 to 4"):
            strict.partitions(end, to_json(planned))
        assert lenient.partitions(end, to_json(planned)) == []
    finally:
        strict.stop()
        lenient.stop()


def _start_slave_without_copies(cluster: Cluster, folder: Path) -> None:
    """A slave of broker-a that knows its topics and has none of their messages."""
    (folder / "slave" / "config").mkdir(parents=True)
    shutil.copy(folder / "broker-a" / "config" / "topics.json", folder / "slave" / "config")
    cluster.start_slave(brokerName="broker-a", haMasterAddress=f"127.0.0.1:{free_port()}")


def _bounds(stream: TopicStream, queue: MessageQueue) -> Bounds | None:
    return stream.cluster.bounds([queue], required=False).get(queue)
