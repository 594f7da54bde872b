"""Topics read as streams."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ariane import Admin
from ariane.message import MessageQueue
from ariane.spark.progress import queue_lag
from tests.cluster import running_cluster
from tests.peers import ApacheBroker, ApacheNamesrv, unique
from tests.spark.clusters import Target, await_that, numbered
from tests.spark.conftest import RecordedStore

FOUR = "queueId int, queueOffset bigint, keys string, body string"


def stream(spark: Any, target: Target, topic: str, **options: Any) -> Any:
    reader = spark.readStream.format("rocketmq").schema(FOUR).option("nameServer", target.namesrv)
    return reader.option("topic", topic).options(**options).load()


def available(frame: Any, table: Path) -> Any:
    """Run to the present into a Parquet table; the finished query."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", f"{table}-checkpoint")
        .trigger(availableNow=True)
        .start(str(table))
    )
    query.awaitTermination()
    return query


def numbers(spark: Any, table: Path) -> Counter[int]:
    return Counter(int(row.keys[1:]) for row in spark.read.parquet(str(table)).select("keys").collect())


def once(count: int) -> Counter[int]:
    return Counter(range(count))


@contextmanager
def running(frame: Any, name: str, **options: Any) -> Iterator[Any]:
    """A query that collects into memory until the end of the block."""
    query = frame.writeStream.format("memory").queryName(name).options(**options).start()
    try:
        yield query
    finally:
        query.stop()


def test_available_now_reads_all_in_limited_batches_and_goes_on_from_its_checkpoint(
    spark: Any, target: Target, tmp_path: Path
) -> None:
    topic, table = target.topic(), tmp_path / "table"
    messages = numbered(topic, 500)
    target.send(topic, messages[:300])
    frame = stream(spark, target, topic, startingOffsets="earliest", maxOffsetsPerTrigger=100)
    query = available(frame, table)
    assert numbers(spark, table) == once(300)
    assert [p.numInputRows for p in query.recentProgress if p.numInputRows] == [100, 100, 100]
    target.send(topic, messages[300:])
    available(stream(spark, target, topic, startingOffsets="earliest"), table)
    assert numbers(spark, table) == once(500)


def test_a_stream_begins_with_the_latest_and_sees_what_comes_and_queues_that_are_added(
    spark: Any, target: Target
) -> None:
    topic, name = target.topic(queues=2), unique("memory")
    messages = numbered(topic, 300)
    target.send(topic, messages[:100], queue_ids=(0, 1))
    frame = stream(spark, target, topic, routeRefreshMs=100)
    with running(frame, name) as query:
        await_that("the first look", lambda: query.lastProgress)
        target.send(topic, messages[100:200], queue_ids=(0, 1))
        await_that("new messages", lambda: spark.table(name).count() == 100)
        target.topic(queues=4, name=topic)
        target.send(topic, messages[200:], queue_ids=(2, 3))
        await_that("messages of new queues", lambda: spark.table(name).count() == 200)
        rows = spark.table(name).collect()
    assert sorted(int(row.keys[1:]) for row in rows) == list(range(100, 300))
    assert {row.queueId for row in rows} == {0, 1, 2, 3}


def test_starting_offsets_count_at_the_first_start_and_then_the_checkpoint_decides(
    spark: Any, ours: Target, tmp_path: Path
) -> None:
    topic, table = ours.topic(queues=1), tmp_path / "table"
    ours.send(topic, numbered(topic, 10), queue_ids=(0,))
    here, elsewhere = (json.dumps({topic: {broker: {"0": 4}}}) for broker in ("broker-a", "broker-z"))
    with pytest.raises(Exception, match=f"startingOffsets.*read: topic {topic}, broker broker-z, queue 0"):
        available(stream(spark, ours, topic, startingOffsets=elsewhere), table)
    available(stream(spark, ours, topic, startingOffsets=here), table)
    assert numbers(spark, table) == Counter(range(4, 10))
    ours.send(topic, numbered(topic, 12)[10:], queue_ids=(0,))
    available(stream(spark, ours, topic, startingOffsets=elsewhere), table)
    assert numbers(spark, table) == Counter(range(4, 12))


def test_progress_is_shown_to_brokers_and_in_the_query(spark: Any, target: Target, tmp_path: Path) -> None:
    topic, group = target.topic(queues=1), unique("group")
    target.send(topic, numbered(topic, 30), queue_ids=(0,))
    frame = stream(spark, target, topic, startingOffsets="earliest", group=group, maxOffsetsPerTrigger=10)
    query = available(frame, tmp_path / "table")
    with Admin(name_servers=target.namesrv) as admin:
        (queue,) = admin.queues(topic)
        assert admin.committed(group, queue) == 30
    assert [queue_lag(progress) for progress in query.recentProgress if progress.numInputRows] == [
        {MessageQueue(topic, queue.broker_name, 0): lag} for lag in (20, 10, 0)
    ]


@dataclass(frozen=True)
class Recorded:
    """A broker on a recorded store."""

    target: Target
    store: RecordedStore
    stop: Callable[[], None]
    start: Callable[[], object]


@pytest.fixture(params=["ours", "apache"])
def recorded_broker(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    apache_namesrv: Callable[..., ApacheNamesrv],
    apache_broker: Callable[..., ApacheBroker],
) -> Iterator[Recorded]:
    store, name = RecordedStore("store-clean", tmp_path), "fix-broker"
    sizes = {"mappedFileSizeCommitLog": 262144, "mappedFileSizeConsumeQueue": 2000}
    if request.param == "apache":
        namesrv = apache_namesrv().address
        broker = apache_broker(namesrv, store=store.path, config={"brokerName": name, **sizes})
        yield Recorded(Target(namesrv, "apache"), store, broker.stop, broker.restart)
        return
    places = {"storePathRootDir": store.path, "storePathCommitLog": store.path / "commitlog"}
    with running_cluster(tmp_path) as cluster:
        start = partial(cluster.start_broker, name, **sizes, **places)
        start()
        yield Recorded(Target(cluster.namesrv, "ours"), store, partial(cluster.stop_broker, name), start)


def test_offsets_that_expired_are_an_error_or_skipped(spark: Any, recorded_broker: Recorded, tmp_path: Path) -> None:
    target, store, table = recorded_broker.target, recorded_broker.store, tmp_path / "table"
    options = {"startingOffsets": "earliest", "routeRefreshMs": 100}
    one = stream(spark, target, "FixBig", maxOffsetsPerTrigger=4, **options)
    query = one.writeStream.format("parquet").option("checkpointLocation", f"{table}-checkpoint")
    query = query.start(str(table))
    await_that("a first batch", lambda: query.lastProgress and query.lastProgress.batchId >= 0)
    query.stop()
    before = spark.read.parquet(str(table)).count()
    recorded_broker.stop()
    min(store.path.joinpath("commitlog").iterdir()).unlink()
    recorded_broker.start()
    with pytest.raises(Exception, match=r"topic FixBig.*failOnDataLoss=false"):
        available(stream(spark, target, "FixBig", **options), table)
    available(stream(spark, target, "FixBig", failOnDataLoss=False, **options), table)
    kept = [m for m in store.messages if m["topic"] == "FixBig" and m["commitLogOffset"] >= 262144]
    assert spark.read.parquet(str(table)).count() == before + len(kept)
