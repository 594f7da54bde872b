"""Topics read in batch, from our broker and from Apache's."""

import gc
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ariane import Producer
from ariane.errors import ConfigError
from ariane.message import Message
from ariane.spark.arrow.schema import default_schema
from ariane.spark.topic.batch import TopicReader
from ariane.spark.topic.options import TopicOptions
from tests.peers import unique
from tests.spark.clusters import Target, await_that, now_ms, numbered

GOOD = {"nameserver": "127.0.0.1:9876", "topic": "t"}
FOUR = "queueId int, queueOffset bigint, keys string, body string"


def read(spark: Any, target: Target, topic: str, schema: str | None = FOUR, **options: Any) -> Any:
    reader = spark.read.format("rocketmq").option("nameServer", target.namesrv).option("topic", topic)
    return (reader.schema(schema) if schema else reader).options(**options).load()


def numbers(frame: Any) -> list[int]:
    return sorted(int(row.keys[1:]) for row in frame.select("keys").collect())


def test_a_topic_is_read_whole_with_all_columns(spark: Any, target: Target) -> None:
    topic = target.topic()
    target.send(topic, numbered(topic, 1000))
    rows = read(spark, target, topic, None).collect()
    sent = {message.queue_offset * 4 + message.queue.queue_id: message for message in target.received(topic)}
    assert len(rows) == len(sent) == 1000
    for row in rows:
        message = sent[row.queueOffset * 4 + row.queueId]
        assert (row.topic, row.brokerName, bytes(row.body)) == (topic, message.queue.broker_name, message.body)
        assert (row.msgId, row.keys, row.tags) == (message.message_id, message.keys[0], message.tags)
        assert (row.physicalOffset, row.storeHost) == (message.physical_offset, message.store_host)
        assert row.properties.count("\x02") + 1 >= len(message.properties)


def test_offsets_and_times_bound_what_is_read(spark: Any, target: Target) -> None:
    topic = target.topic(queues=2)
    target.send(topic, numbered(topic, 40), queue_ids=(0, 1))
    stored = target.received(topic)
    broker = stored[0].queue.broker_name
    start, end = json.dumps({topic: {broker: {"0": 5, "1": -2}}}), json.dumps({topic: {broker: {"0": 7, "1": -1}}})
    rows = read(spark, target, topic, startingOffsets=start, endingOffsets=end).collect()
    assert sorted((r.queueId, r.queueOffset) for r in rows) == [(0, 5), (0, 6)] + [(1, i) for i in range(20)]
    times = sorted(message.store_time for message in stored)
    first, last = times[0], times[-1]
    by_time = read(spark, target, topic, startingTimestamp=first, endingTimestamp=last + 1)
    assert by_time.count() == 40
    assert read(spark, target, topic, startingTimestamp=last + 1).count() == 0
    assert read(spark, target, topic, endingTimestamp=first).count() == 0
    parts = [read(spark, target, topic, endingTimestamp=last), read(spark, target, topic, startingTimestamp=last)]
    assert sum(part.count() for part in parts) == 40  # adjacent ranges share no message


def test_times_cut_in_the_middle_of_a_queue(spark: Any, target: Target) -> None:
    topic = target.topic(queues=1)
    messages = numbered(topic, 30)
    for at in (0, 10, 20):
        target.send(topic, messages[at : at + 10], (0,))
        stored = max(message.store_time for message in target.received(topic))
        await_that("the clock to go on", lambda stored=stored: now_ms() > stored)
    times = [message.store_time for message in target.received(topic)]
    for show in (str, iso):
        middle = read(spark, target, topic, startingTimestamp=show(times[10]), endingTimestamp=show(times[20]))
        assert numbers(middle) == list(range(10, 20))
    assert numbers(read(spark, target, topic, startingTimestamp=iso(times[9] + 1))) == list(range(10, 30))
    assert numbers(read(spark, target, topic, endingTimestamp=iso(times[20]))) == list(range(20))


def iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).isoformat(timespec="milliseconds")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2026-01-31T12:00:00", 1_769_860_800_000),
        ("2026-01-31T12:00:00+02:00", 1_769_853_600_000),
        ("2026-01-31", 1_769_817_600_000),
        ("2026-01-31T12:00:00.789Z", 1_769_860_800_789),
    ],
)
def test_a_time_is_told_by_date_to_the_millisecond(text: str, milliseconds: int) -> None:
    assert TopicOptions.parse(GOOD | {"startingtimestamp": text}, streaming=False).start_ms == milliseconds


def test_the_broker_filters_by_tags_and_by_sql(spark: Any, target: Target) -> None:
    topic = target.topic()
    target.send(topic, numbered(topic, 300))
    assert numbers(read(spark, target, topic, subExpression="Tag1 || Tag2")) == [i for i in range(300) if i % 3]
    some = read(spark, target, topic, subExpression="n > 100 AND TAGS = 'Tag0'", subExpressionType="SQL92")
    assert numbers(some) == [i for i in range(101, 300) if i % 3 == 0]
    with pytest.raises(Exception, match="option subExpression='n >'"):
        read(spark, target, topic, subExpression="n >", subExpressionType="SQL92").collect()


def test_tags_whose_hashes_are_equal_are_told_apart(spark: Any, apache: Target) -> None:
    topic = apache.topic(queues=1)
    apache.send(topic, [Message(topic, b"1", tags="Aa", keys="k1"), Message(topic, b"2", tags="BB", keys="k2")], (0,))
    assert numbers(read(spark, apache, topic, subExpression="BB")) == [2]


def test_small_pulls_are_put_together_and_more_partitions_split_queues(spark: Any, target: Target) -> None:
    topic = target.topic(queues=1)
    target.send(topic, numbered(topic, 2000), queue_ids=(0,))
    frame = read(spark, target, topic, pullBatchSize=7, minPartitions=3)
    assert frame.rdd.getNumPartitions() == 3
    assert numbers(frame) == list(range(2000))


def test_queues_with_little_to_read_share_a_task(spark: Any, ours: Target) -> None:
    topic = ours.topic()
    messages = numbered(topic, 5400, size=1)
    ours.send(topic, messages[:400])
    assert read(spark, ours, topic).rdd.getNumPartitions() == 1
    assert read(spark, ours, topic, minPartitions=2).rdd.getNumPartitions() == 4
    ours.send(topic, messages[400:], queue_ids=(1,))
    frame = read(spark, ours, topic)
    shared = frame.rdd.mapPartitions(lambda rows: [sorted({row.queueId for row in rows})]).collect()
    assert shared == [[0, 1], [2, 3]]
    assert numbers(frame) == list(range(5400))


def test_a_worker_does_not_search_what_it_has_imported_for_garbage(spark: Any, ours: Target) -> None:
    topic = ours.topic(queues=1)
    ours.send(topic, numbered(topic, 10), queue_ids=(0,))
    options = TopicOptions.parse({"nameserver": ours.namesrv, "topic": topic}, streaming=False)
    reader = TopicReader(options, default_schema(broker_known=True))
    parts = spark.sparkContext.parallelize(reader.partitions(), 1)
    counts = parts.map(lambda part: (sum(len(rows) for rows in reader.read(part)), gc.get_freeze_count())).collect()
    assert [(rows, frozen > 10_000) for rows, frozen in counts] == [(10, True)]
    assert gc.get_freeze_count() == 0  # the driver's own collector is left alone


def test_a_schema_is_the_projection_and_chooses_types(spark: Any, target: Target) -> None:
    topic = target.topic(queues=1)
    target.send(topic, [Message(topic, b"x" * 20, tags="T", properties={"n": "1", "m": "a=b"})], (0,))
    frame = read(spark, target, topic, "properties map<string,string>, storeTimestamp bigint, body string")
    (row,) = frame.collect()
    assert frame.columns == ["properties", "storeTimestamp", "body"]
    assert {"n": "1", "m": "a=b", "TAGS": "T"}.items() <= row.properties.items()
    assert (row.storeTimestamp, row.body) == (target.received(topic)[0].store_time, "x" * 20)
    (raw,) = read(spark, target, topic, "properties string").collect()
    assert "n\x011\x02" in raw.properties + "\x02"
    with pytest.raises(Exception, match="column 'nothing': there is none"):
        read(spark, target, topic, "nothing string").collect()
    with pytest.raises(Exception, match="column 'queueId': cannot be"):
        read(spark, target, topic, "queueId string").collect()


def test_bodies_that_were_compressed_by_their_sender_are_opened(spark: Any, target: Target) -> None:
    topic, body = target.topic(queues=1), b"a long story, " * 2000
    with Producer(unique("producer"), name_servers=target.namesrv, compress_over=1000) as producer:
        producer.send(Message(topic, body))
    (row,) = read(spark, target, topic, "body binary, sysFlag int, storeSize int").collect()
    assert (bytes(row.body), row.sysFlag & 1) == (body, 1)
    assert row.storeSize < 2000


def test_topics_by_list_and_by_pattern(spark: Any, ours: Target) -> None:
    one, two = ours.topic(), ours.topic()
    ours.send(one, numbered(one, 8))
    ours.send(two, numbered(two, 8))
    both = read(spark, ours, f"{one}, {two}", "topic string")
    assert {row.topic for row in both.collect()} == {one, two}
    reader = spark.read.format("rocketmq").option("nameServer", ours.namesrv)
    assert reader.option("topicPattern", f"({one}|{two})").load().count() == 16


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offsets_of_what_is_not_read_are_an_error_that_names_it(ours: Target, option: str) -> None:
    topic = ours.topic(queues=2)
    for stranger in (("Other", "broker-a", 0), (topic, "broker-z", 0), (topic, "broker-a", 2)):
        name, broker, queue = stranger
        offsets = {topic: {"broker-a": {"0": 0}}}
        offsets.setdefault(name, {}).setdefault(broker, {})[str(queue)] = 5
        given = {"nameserver": ours.namesrv, "topic": topic, option.lower(): json.dumps(offsets)}
        reader = TopicReader(TopicOptions.parse(given, streaming=False), default_schema(broker_known=True))
        with pytest.raises(ConfigError, match=f"{option}.*read: topic {name}, broker {broker}, queue {queue}$"):
            reader.partitions()


def test_a_missing_topic_or_name_server_is_an_error_that_names_it(spark: Any, ours: Target) -> None:
    with pytest.raises(Exception, match="option topic='NoSuchTopic'"):
        read(spark, ours, "NoSuchTopic").collect()
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        spark.read.format("rocketmq").option("nameServer", "127.0.0.1:1").option("topic", "t").load().collect()


@pytest.mark.parametrize(
    ("options", "streaming", "message"),
    [
        ({"nameserver": ""}, False, "option nameServer is required"),
        ({"topic": ""}, False, "option topic is required"),
        ({"topic": "a/b"}, False, "option topic='a/b'"),
        ({"topicpattern": ".*"}, False, "topic and topicPattern contradict"),
        ({"startingofset": "latest"}, False, "no option startingofset"),
        ({"startingoffsets": "first"}, True, "startingOffsets='first': must be earliest, latest, or JSON"),
        ({"startingoffsets": '{"t":{"b":{"0":-3}}}'}, True, "queue '0' has no offset -3"),
        ({"startingoffsets": '{"t":5}'}, True, "brokers of t must be a JSON object"),
        ({"startingoffsets": "latest"}, False, "startingOffsets=latest reads nothing"),
        ({"endingoffsets": "earliest"}, False, "endingOffsets=earliest reads nothing"),
        (
            {"startingoffsets": '{"t":{"b":{"0":9}}}', "endingoffsets": '{"t":{"b":{"0":7}}}'},
            False,
            "=9 and endingOffsets=7",
        ),
        (
            {"startingoffsets": '{"t":{"b":{"0":-1}}}', "endingoffsets": '{"t":{"b":{"0":7}}}'},
            False,
            "=-1 and endingOffsets=7",
        ),
        ({"endingoffsets": "latest"}, True, "endingOffsets has no meaning in a stream"),
        ({"maxoffsetspertrigger": "5"}, False, "maxOffsetsPerTrigger has no meaning in a batch"),
        ({"maxoffsetspertrigger": "0"}, True, "maxOffsetsPerTrigger='0': must be 1 or more"),
        ({"startingoffsets": "earliest", "startingtimestamp": "1"}, True, "startingOffsets and startingTimestamp"),
        ({"startingtimestamp": "yesterday"}, True, "startingTimestamp='yesterday'"),
        ({"failondataloss": "perhaps"}, True, "failOnDataLoss='perhaps': must be true or false"),
        ({"accesskey": "a"}, True, "accessKey and secretKey go together"),
        ({"tlstrustcertpath": "/ca"}, True, "tls=true is not"),
        ({"tls": "true", "tlskeypath": "/key"}, True, "tlsKeyPath needs option tlsCertPath"),
        (
            {"tls": "true", "tlsinsecure": "true", "tlstrustcertpath": "/ca"},
            True,
            "tlsInsecure=true verifies nothing",
        ),
        ({"subexpressiontype": "LUA"}, True, "subExpressionType='LUA': must be one of TAG, SQL92, EXPRESSION"),
        ({"commitoffsets": "true"}, True, "commitOffsets=true needs option group"),
        ({"group": "g g"}, True, "group='g g'"),
    ],
)
def test_an_unknown_or_contradictory_option_is_an_error_that_names_it(
    options: dict[str, str], streaming: bool, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        TopicOptions.parse(GOOD | options, streaming=streaming)
