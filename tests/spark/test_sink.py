"""DataFrames written to topics."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ariane import Admin, PullClient
from ariane.errors import ConfigError, SendError
from ariane.message import DELIVER_TIME, TIMER_DELIVER_MS
from ariane.protocol.batch import decode_batch
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.spark.sink.checks import ANSWERS
from ariane.spark.sink.options import SinkOptions
from ariane.spark.sink.rows import RowKeys, check_columns, rows_of
from ariane.spark.sink.sender import SinkSender
from ariane.spark.sink.writer import Sink, Work
from tests.cluster import running_cluster
from tests.peers import ApacheBroker, ApacheNamesrv, free_port, unique
from tests.spark.clusters import Target, WaitingCluster, await_that, numbered


def write(frame: Any, target: Target, topic: str | None, **options: Any) -> None:
    writer = frame.write.format("rocketmq").option("nameServer", target.namesrv).mode("append")
    (writer if topic is None else writer.option("topic", topic)).options(**options).save()


def numbers(spark: Any, count: int, partitions: int = 2) -> Any:
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as body")


def bodies(target: Target, topic: str) -> Counter[int]:
    return Counter(int(message.body) for message in target.received(topic))


def test_all_columns_arrive(spark: Any, target: Target) -> None:
    topic = target.topic()
    frame = spark.range(0, 300, 1, 2).select(
        F.col("id").cast("string").cast("binary").alias("body"),
        F.lit(topic).alias("topic"),
        F.concat(F.lit("Tag"), F.col("id") % 3).alias("tags"),
        F.concat(F.lit("k"), F.col("id")).alias("keys"),
        F.create_map(F.lit("n"), F.col("id").cast("string")).alias("properties"),
    )
    write(frame, target, None)
    messages = target.received(topic)
    assert sorted(int(message.body) for message in messages) == list(range(300))
    for message in messages:
        number = int(message.body)
        assert (message.tags, message.keys) == (f"Tag{number % 3}", [f"k{number}"])
        assert message.properties["n"] == str(number)
    assert len({message.message_id for message in messages}) == 300
    assert len({message.queue.queue_id for message in messages}) > 1


def test_rows_with_a_hash_key_keep_their_order(spark: Any, target: Target) -> None:
    topic = target.topic()
    frame = spark.range(0, 2000, 1, 1).selectExpr("cast(id as string) as body", "cast(id % 7 as string) as hashKey")
    write(frame, target, topic, batchBytes=1024)
    places: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    for message in target.received(topic):
        number = int(message.body)
        places.setdefault(number % 7, set()).add(message.queue.queue_id)
        assert last.get(number % 7, -1) < number
        last[number % 7] = number
    assert all(len(queues) == 1 for queues in places.values())
    assert sum(len(queues) for queues in places.values()) == 7


def test_delayed_rows_wait(spark: Any, apache: Target) -> None:
    topic = apache.topic(queues=1)
    write(numbers(spark, 3, 1).withColumn("delayLevel", F.lit(1)), apache, topic)
    await_that("delayed messages", lambda: len(apache.received(topic)) == 3)
    for message in apache.received(topic):
        assert message.store_time - message.born_time >= 900


def test_the_keys_of_a_stream_are_the_same_in_every_try(spark: Any, ours: Target, tmp_path: Path) -> None:
    source, topic = tmp_path / "source", ours.topic()
    numbers(spark, 50).write.parquet(str(source))
    frame = spark.readStream.schema("body string").parquet(str(source))

    def run(checkpoint: Path) -> None:
        writer = frame.writeStream.format("rocketmq").option("nameServer", ours.namesrv).option("topic", topic)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    run(tmp_path / "checkpoint")
    for name in ("0", ".0.crc"):  # as if the driver had died before it noted that the batch was done
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    run(tmp_path / "checkpoint")
    messages = ours.received(topic)
    assert len(messages) == 100
    assert Counter(Counter(message.message_id for message in messages).values()) == Counter({2: 50})


def test_exactly_once_shows_a_batch_whole_and_once(spark: Any, target: Target, tmp_path: Path) -> None:
    topic = target.topic()
    options = {"delivery": "exactly-once", "checkpointLocation": tmp_path / "checkpoint", "writeId": "nightly"}
    write(numbers(spark, 200), target, topic, **options)
    await_that("the batch", lambda: bodies(target, topic) == Counter(range(200)))
    write(numbers(spark, 200), target, topic, **options)  # the same write once more: it was committed already
    assert bodies(target, topic) == Counter(range(200))


def test_each_write_of_a_checkpoint_has_a_decision_of_its_own(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic = ours.topic()
    options = {"delivery": "exactly-once", "checkpointLocation": tmp_path / "checkpoint"}
    for write_id in ("nightly/2026-01-30", "nightly/2026-01-31", "a name with spaces, dots. and ümlauts"):
        for _ in range(2):  # the second one does nothing
            write(numbers(spark, 20), ours, topic, writeId=write_id, **options)
    assert bodies(ours, topic) == Counter(dict.fromkeys(range(20), 3))
    for _ in range(2):  # without an id each is another write
        write(numbers(spark, 20), ours, topic, **options)
    assert bodies(ours, topic) == Counter(dict.fromkeys(range(20), 5))


def test_every_batch_of_a_stream_that_writes_for_itself_counts(spark: Any, ours: Target, tmp_path: Path) -> None:
    source, topic, copy = ours.topic(), ours.topic(), tmp_path / "copy"
    ours.send(source, numbered(source, 40))
    reader = spark.readStream.format("rocketmq").schema("body binary").option("nameServer", ours.namesrv)
    reader = reader.option("topic", source).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20)

    def copied(rows: Any, batch: int) -> None:
        write(rows, ours, topic, delivery="exactly-once", checkpointLocation=copy, writeId=f"copy-{batch}")

    query = reader.load().writeStream.foreachBatch(copied).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert bodies(ours, topic) == Counter(range(40))


def test_a_failed_task_shows_nothing_in_a_transaction(spark: Any, target: Target, tmp_path: Path) -> None:
    topic = target.topic()
    frame = numbers(spark, 100).selectExpr("if(body = '90', raise_error('no'), body) as body")
    with pytest.raises(Exception, match="no"):
        write(frame, target, topic, delivery="exactly-once", checkpointLocation=tmp_path / "checkpoint")
    assert target.received(topic) == []


def test_rows_that_are_no_messages_are_errors(spark: Any, ours: Target) -> None:
    topic = ours.topic()
    with pytest.raises(Exception, match="a row has no body"):
        write(numbers(spark, 3).selectExpr("nullif(body, '2') as body"), ours, topic)
    with pytest.raises(Exception, match="'a/b', which is not a valid name"):
        write(numbers(spark, 3).selectExpr("body", "'a/b' as topic"), ours, None)
    with pytest.raises(Exception, match="cannot be overwritten"):
        numbers(spark, 1).write.format("rocketmq").option("nameServer", ours.namesrv).mode("overwrite").save()


@pytest.mark.parametrize(
    ("columns", "transactional", "message"),
    [
        ("keys string", False, "column 'body' is required"),
        ("body string, colour string", False, "column 'colour' is none of the sink's"),
        ("body int", False, "column 'body' must be binary or string, not int"),
        ("body string, delayLevel int", True, "column 'delayLevel': a delayed message cannot be part"),
    ],
)
def test_a_column_that_does_not_fit_is_an_error_that_names_it(
    spark: Any, columns: str, transactional: bool, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_columns(StructType.fromDDL(columns), topic="t", transactional=transactional)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option nameServer is required"),
        ({"nameserver": "a:1", "delivery": "twice"}, "delivery='twice': must be one of at-least-once, exactly-once"),
        ({"nameserver": "a:1", "delivery": "exactly-once"}, "needs option checkpointLocation"),
        ({"nameserver": "a:1", "startingoffsets": "latest"}, "the rocketmq sink has no option startingoffsets"),
        ({"nameserver": "a:1", "topic": "a/b"}, "topic='a/b': not a valid name"),
        ({"nameserver": "a:1", "path": "/tmp/x"}, "the rocketmq sink has no option path"),
    ],
)
def test_an_option_that_does_not_fit_is_an_error_that_names_it(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SinkOptions.parse(options)


def test_options_that_another_kind_of_write_has_are_errors_in_spark_too(
    spark: Any, ours: Target, tmp_path: Path
) -> None:
    writer = numbers(spark, 1).write.format("rocketmq").option("nameServer", ours.namesrv).mode("append")
    with pytest.raises(Exception, match="has no option path"):
        writer.option("topic", "orders").save("/tmp/orders")
    numbers(spark, 1).write.parquet(str(tmp_path / "source"))
    frame = spark.readStream.schema("body string").parquet(str(tmp_path / "source"))
    stream = frame.writeStream.format("rocketmq").option("nameServer", ours.namesrv).option("topic", "orders")
    query = stream.option("writeId", "x").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match="option writeId is for batch writes"):
        query.awaitTermination()


def test_raw_properties_and_delivery_times_reach_the_broker(spark: Any, ours: Target) -> None:
    topic, when = ours.topic(), int((datetime.now(UTC).timestamp() + 5) * 1000)
    raw = numbers(spark, 1).withColumn("properties", F.lit("colour\x01red\x02size\x01XL\x02"))
    write(raw.withColumn("deliverTime", F.timestamp_millis(F.lit(when))), ours, topic)
    write(raw.withColumn("deliverTime", F.lit(when)), ours, topic)
    await_that("both messages", lambda: len(ours.received(topic)) == 2)
    for message in ours.received(topic):
        properties = message.properties
        assert message.store_time >= when
        assert (properties["colour"], properties["size"]) == ("red", "XL")
        assert properties[DELIVER_TIME] == properties[TIMER_DELIVER_MS] == str(when)


BODY = StructType([StructField("body", StringType())])


def sink(namesrv: str, topic: str, **options: Any) -> Sink:
    """The sink as a task and the driver use it."""
    given = {"nameserver": namesrv, "topic": topic, **{name.lower(): str(value) for name, value in options.items()}}
    return Sink(SinkOptions.parse(given), BODY)


def rows(numbers: Iterable[int], size: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"body": [f"{number:0{size}}" for number in numbers]})


def test_a_task_sends_a_window_ahead_and_waits_as_long_and_tries_as_often_as_it_is_told(tmp_path: Path) -> None:
    came: Counter[int] = Counter()

    async def silence(command: Command) -> None:
        came[int(decode_batch(command.body)[0].body)] += 1
        await asyncio.Event().wait()

    with running_cluster(tmp_path) as cluster:
        handlers = cluster.start_broker().handlers
        topic = Target(cluster.namesrv, "ours").topic(queues=1)
        handlers[RequestCode.SEND_BATCH_MESSAGE] = lambda _, command: silence(command)
        options = {"window": 3, "batchBytes": 1024, "sendTimeoutMs": 300}
        for retries in (0, 1):
            came.clear()
            with pytest.raises(SendError, match=r"1 messages to .* were not stored: .* did not answer within 0.3 s"):
                sink(cluster.namesrv, topic, sendRetries=retries, **options).send(
                    iter([rows(range(9), 1024)]), Work("write", "0", 0)
                )
            await_that("the requests", lambda retries=retries: came == Counter(dict.fromkeys(range(3), 1 + retries)))


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_write_goes_on_when_its_broker_comes_back(tmp_path: Path, delivery: str) -> None:
    with running_cluster(tmp_path) as cluster:
        port = free_port(-2, 1)
        cluster.start_broker(listenPort=port)
        target = Target(cluster.namesrv, "ours")
        topic = target.topic()

        def batches() -> Iterator[pa.RecordBatch]:
            yield rows(range(50), 1024)
            cluster.stop_broker()  # answers to requests are on their way, or lost
            cluster.start_broker(listenPort=port)
            yield rows(range(50, 100), 1024)

        options = {"batchBytes": 2048, "delivery": delivery, "checkpointLocation": tmp_path / "checkpoint"}
        writer = sink(cluster.namesrv, topic, **options)
        writer.decide([writer.send(batches(), Work("write", "0", 0))], "0")
        found = bodies(target, topic)
        assert found.keys() == set(range(100))
        assert delivery == "at-least-once" or found == Counter(range(100))
        ANSWERS.close()


def test_a_task_keeps_to_its_rate(ours: Target) -> None:
    topic = ours.topic()
    options = sink(ours.namesrv, topic, rate=50).options
    with WaitingCluster(options.access) as cluster:
        sender = SinkSender(options, unique("sink"), cluster)
        for row in rows_of(rows(range(200)), RowKeys("write", "0", 0), topic):
            sender.add(row)
            assert cluster.passed * 50 + 10 >= int(row.body)  # a fifth of a second ahead at most
        sender.flush()
        sender.close()
    assert bodies(ours, topic) == Counter(range(200))
    assert cluster.passed == pytest.approx(4, abs=0.2)


def test_tls_carries_a_transaction(spark: Any, target: Target, tmp_path: Path) -> None:
    topic = target.topic()
    secure = {"tls": True, "tlsInsecure": True}
    write(numbers(spark, 50), target, topic, **secure, delivery="exactly-once", checkpointLocation=tmp_path)
    assert bodies(target, topic) == Counter(range(50))


ACL = """
accounts:
- accessKey: writer-key
  secretKey: writer-secret
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [orders=PUB]
- accessKey: owner-key
  secretKey: owner-secret
  admin: true
"""


def test_keys_let_a_transaction_in_and_a_denial_says_that_it_is_one(
    apache_namesrv: Callable[..., ApacheNamesrv], apache_broker: Callable[..., ApacheBroker], tmp_path: Path
) -> None:
    namesrv = apache_namesrv().address
    apache_broker(namesrv, config={"aclEnable": "true"}, files={"conf/plain_acl.yml": ACL})
    owner = {"name_servers": namesrv, "access_key": "owner-key", "secret_key": "owner-secret"}
    with Admin(**owner) as admin, PullClient(**owner) as reader:
        for topic in ("orders", "secrets"):
            admin.create_topic(topic, queues=1)
            await_that("the topic", lambda topic=topic: topic in admin.topics())
        keys = {"accessKey": "writer-key", "secretKey": "writer-secret", "checkpointLocation": tmp_path}
        keys["delivery"] = "exactly-once"  # Apache's broker asks for no permission when a batch is sent
        writer = sink(namesrv, "orders", **keys)
        writer.decide([writer.send(iter([rows(range(20))]), Work("write", "0", 0))], "0")
        (queue,) = reader.queues("orders")
        await_that("the transaction", lambda: reader.max_offset(queue) == 20)
        with pytest.raises(SendError, match="secrets"):
            sink(namesrv, "secrets", **keys).send(iter([rows(range(1))]), Work("write", "0", 0))
        with pytest.raises(SendError, match="writer-key"):
            sink(namesrv, "orders", **keys | {"secretKey": "wrong-secret"}).send(
                iter([rows(range(1))]), Work("write", "0", 0)
            )
    ANSWERS.close()
