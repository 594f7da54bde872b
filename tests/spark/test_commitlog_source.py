"""Store folders of Apache's broker read without any broker."""

import asyncio
import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ariane.env import Env
from ariane.errors import ConfigError, StoreError
from ariane.spark.arrow.scan import find_sync
from ariane.spark.arrow.schema import default_schema
from ariane.spark.commitlog import log_reader
from ariane.spark.commitlog.log_files import log_files
from ariane.spark.commitlog.log_reader import log_end
from ariane.spark.commitlog.options import CommitlogOptions
from ariane.spark.commitlog.source import CommitlogSource
from ariane.spark.commitlog.stream import CommitlogStream
from ariane.spark.file_systems import file_system
from ariane.store import MessageStore, StoreOptions
from tests.spark.conftest import RecordedStore
from tests.store.units import unit

MAP_SCHEMA = (
    "topic string, queueId int, queueOffset bigint, physicalOffset bigint, msgId string, keys string, tags string, "
    "body binary, properties map<string,string>, bornTimestamp timestamp, storeTimestamp timestamp, bornHost string, "
    "storeHost string, reconsumeTimes int, sysFlag int, flag int, storeSize int, preparedTransactionOffset bigint"
)


def read(spark: Any, store: RecordedStore | Path, schema: str = MAP_SCHEMA, **options: Any) -> Any:
    path = store.path if isinstance(store, RecordedStore) else store
    return spark.read.format("rocketmq-commitlog").schema(schema).options(**options).load(str(path))


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).replace(tzinfo=None)


def expected(message: dict[str, Any]) -> dict[str, Any]:
    """A manifest's entry in the words of the schema."""
    same = (
        "topic", "queueId", "queueOffset", "keys", "tags", "bornHost", "storeHost", "reconsumeTimes", "sysFlag",
        "flag", "storeSize", "preparedTransactionOffset", "properties",
    )  # fmt: skip
    return {name: message[name] for name in same} | {
        "physicalOffset": message["commitLogOffset"],
        "msgId": message["msgId"] or message["offsetMsgId"],
        "bornTimestamp": moment(message["bornTimestamp"]),
        "storeTimestamp": moment(message["storeTimestamp"]),
        "body": (message["bodyLength"], message["bodySha256"]),
    }


def actual(row: Any) -> dict[str, Any]:
    body = bytes(row.body)
    return row.asDict() | {"body": (len(body), hashlib.sha256(body).hexdigest())}


@pytest.mark.parametrize("split", [60_000, 64 << 20])
def test_recorded_stores_equal_their_manifests_however_the_files_are_split(
    spark: Any, recorded: RecordedStore, split: int
) -> None:
    rows = read(spark, recorded, splitBytes=split, checkCrc=True).collect()
    assert [actual(row) for row in sorted(rows, key=lambda r: r.physicalOffset)] == [
        expected(message) for message in recorded.messages
    ]


def test_topics_are_read_through_their_consumequeues_in_queue_order(spark: Any, recorded: RecordedStore) -> None:
    schema = "topic string, queueId int, queueOffset bigint, physicalOffset bigint"
    rows = read(spark, recorded, schema, through="consumequeue").collect()
    queues = {key.rpartition("/")[::2]: queue["units"] for key, queue in recorded.manifest["consumequeue"].items()}
    by_queue: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in rows:
        by_queue.setdefault((row.topic, str(row.queueId)), []).append((row.queueOffset, row.physicalOffset))
    assert by_queue == {queue: [(i, unit[0]) for i, unit in enumerate(units)] for queue, units in queues.items()}


def test_queues_begin_where_the_log_begins_when_old_files_have_expired(spark: Any, clean_store: RecordedStore) -> None:
    files = sorted((clean_store.path / "commitlog").iterdir())
    files[0].unlink()
    begin = int(files[1].name)
    schema = "topic string, queueId int, queueOffset bigint, physicalOffset bigint"
    rows = read(spark, clean_store, schema, through="consumequeue").collect()
    units = [unit[0] for queue in clean_store.manifest["consumequeue"].values() for unit in queue["units"]]
    assert sorted(row.physicalOffset for row in rows) == sorted(at for at in units if at >= begin)
    first = min(at for at in units if at >= begin)
    damage(clean_store, first - begin + 4, b"\xff\xff\xff\xff")  # a message that is gone without its file is missed
    with pytest.raises(Exception, match="1 messages are not in the log any more"):
        read(spark, clean_store, schema, through="consumequeue").collect()


def test_topics_and_times_choose_messages_and_prune_files(spark: Any, clean_store: RecordedStore) -> None:
    by_topic = read(spark, clean_store, topic="FixTran, FixDelay")
    assert by_topic.count() == 6
    assert by_topic.rdd.getNumPartitions() == 1  # both lie in the second file
    by_pattern = read(spark, clean_store, topicPattern="%(RETRY|DLQ)%.*")
    assert {row.topic for row in by_pattern.collect()} == {"%RETRY%FixGroupRetry", "%DLQ%FixGroupRetry"}
    times = [message["storeTimestamp"] for message in clean_store.messages]
    start, end = times[100], times[200]
    some = read(spark, clean_store, startingTimestamp=start, endingTimestamp=end)
    assert some.count() == sum(start <= t < end for t in times)
    assert some.rdd.getNumPartitions() == 1  # all in the first file


def test_more_tasks_and_the_name_of_the_broker_are_options(spark: Any, clean_store: RecordedStore) -> None:
    files = sorted((clean_store.path / "commitlog").iterdir())
    os.truncate(files[-1], 64 << 20)  # as a broker makes it, most of it empty
    frame = read(spark, clean_store, "brokerName string, physicalOffset bigint", brokerName="here", minPartitions=6)
    assert frame.rdd.getNumPartitions() >= 6
    rows = frame.collect()
    assert sorted(row.physicalOffset for row in rows) == [m["commitLogOffset"] for m in clean_store.messages]
    assert {row.brokerName for row in rows} == {"here"}
    assert {row.brokerName for row in read(spark, clean_store, "brokerName string").collect()} == {None}


def test_only_the_log_files_are_needed(spark: Any, clean_store: RecordedStore, tmp_path: Path) -> None:
    bare = clean_store.path / "commitlog"
    assert read(spark, bare, "topic string", topic="FixPlain").count() == 120
    assert spark.read.format("rocketmq-commitlog").load(f"file://{bare}").count() == len(clean_store.messages)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_the_names_that_spark_has_for_object_stores_are_opened(scheme: str) -> None:
    system, path = file_system(f"{scheme}://bucket/s3a/store?region=eu-west-1")
    assert (system.type_name, path) == ("s3", "bucket/s3a/store")


def damage(store: RecordedStore, at: int, data: bytes) -> None:
    files = sorted((store.path / "commitlog").iterdir())
    size = files[0].stat().st_size
    with open(files[at // size], "r+b") as file:
        file.seek(at % size)
        file.write(data)


def test_damage_inside_the_log_is_an_error_that_says_where_or_is_skipped(
    spark: Any, clean_store: RecordedStore
) -> None:
    victims = {clean_store.messages[index]["commitLogOffset"] for index in (0, 40, 300)}
    for at in victims:
        damage(clean_store, at + 4, b"\xff\xff\xff\xff")
    with pytest.raises(Exception, match=r"damaged.*failOnDataLoss=false"):
        read(spark, clean_store).collect()
    for split in (60_000, 64 << 20):
        rows = read(spark, clean_store, failOnDataLoss=False, splitBytes=split).collect()
        assert {row.physicalOffset for row in rows} == {m["commitLogOffset"] for m in clean_store.messages} - victims


def test_a_flipped_bit_in_a_body_is_found_by_the_checksum(spark: Any, clean_store: RecordedStore) -> None:
    victim = clean_store.messages[5]
    damage(clean_store, victim["commitLogOffset"] + 88, b"\x00")
    assert read(spark, clean_store).count() == len(clean_store.messages)
    with pytest.raises(Exception, match=f"message at {victim['commitLogOffset']} of the log"):
        read(spark, clean_store, checkCrc=True).collect()
    rows = read(spark, clean_store, checkCrc=True, failOnDataLoss=False).collect()
    assert len(rows) == len(clean_store.messages) - 1


def test_a_torn_tail_is_not_there(spark: Any, clean_store: RecordedStore) -> None:
    last = clean_store.messages[-1]
    damage(clean_store, last["commitLogOffset"] + 100, bytes(last["storeSize"] - 100))
    assert read(spark, clean_store).count() == len(clean_store.messages) - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingTimestamps": "1"}, "no option startingtimestamps"),
        ({"topic": "a", "topicPattern": "b"}, "topic and topicPattern contradict"),
        ({"startingTimestamp": "9", "endingTimestamp": "3"}, "startingTimestamp=9 and endingTimestamp=3 contradict"),
        ({"checkCrc": "maybe"}, "checkCrc='maybe': must be true or false"),
        ({"through": "index"}, "through='index': must be one of commitlog, consumequeue"),
        ({"topicPattern": "("}, "topicPattern='\\('"),
        ({"splitBytes": "1"}, "splitBytes='1': must be 4096 or more"),
        ({"splitBytes": "4096", "minPartitions": "2"}, "splitBytes and minPartitions contradict"),
        ({"through": "consumequeue", "splitBytes": "4096"}, "through and splitBytes contradict"),
        ({"through": "consumequeue", "minPartitions": "2"}, "through and minPartitions contradict"),
    ],
)
def test_an_unknown_or_contradictory_option_is_an_error_that_names_it(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CommitlogSource({"path": "/store"} | {k.lower(): v for k, v in options.items()})


def test_an_option_without_a_meaning_where_it_is_given_is_an_error() -> None:
    schema = default_schema(broker_known=False)
    with pytest.raises(ConfigError, match="maxBytesPerTrigger has no meaning in a batch read"):
        CommitlogSource({"path": "/store", "maxbytespertrigger": "4096"}).reader(schema)
    for name, value in (("through", "consumequeue"), ("minPartitions", "2")):
        with pytest.raises(ConfigError, match=f"{name}.* has no meaning in a stream"):
            CommitlogSource({"path": "/store", name.lower(): value}).streamReader(schema)


def test_errors_reach_the_user_of_spark(spark: Any, clean_store: RecordedStore, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no commitlog files there"):
        read(spark, tmp_path / "nothing").collect()
    with pytest.raises(Exception, match="column 'colour': there is none"):
        read(spark, clean_store, "colour string").collect()
    with pytest.raises(Exception, match="column 'queueId': cannot be string; it is int32"):
        read(spark, clean_store, "queueId string").collect()


def to_the_present(spark: Any, store: RecordedStore, table: Path, **options: Any) -> Any:
    """A query that has streamed what there is of a store into a table."""
    reader = spark.readStream.format("rocketmq-commitlog").schema("physicalOffset bigint, msgId string")
    writer = reader.options(**options).load(str(store.path)).writeStream.format("parquet")
    query = writer.option("checkpointLocation", f"{table}-checkpoint").trigger(availableNow=True).start(str(table))
    query.awaitTermination()
    return query


def offsets(spark: Any, table: Path) -> list[int]:
    return sorted(row.physicalOffset for row in spark.read.parquet(str(table)).collect())


def test_a_store_is_streamed_in_limited_batches_while_it_grows(
    spark: Any, clean_store: RecordedStore, tmp_path: Path
) -> None:
    second = clean_store.path / "commitlog" / f"{262144:020d}"
    whole = second.read_bytes()
    second.write_bytes(whole[:30_000] + bytes(len(whole) - 30_000))  # as it was earlier, with a torn unit at its end
    table = tmp_path / "table"

    written = [message["commitLogOffset"] for message in clean_store.messages]
    ends = {m["commitLogOffset"]: m["commitLogOffset"] + m["storeSize"] for m in clean_store.messages}
    query = to_the_present(spark, clean_store, table, maxBytesPerTrigger=150_000)
    assert offsets(spark, table) == [at for at in written if ends[at] <= 262144 + 30_000]
    assert len([p for p in query.recentProgress if p.numInputRows]) >= 2
    second.write_bytes(whole)
    to_the_present(spark, clean_store, table, maxBytesPerTrigger=150_000)
    assert offsets(spark, table) == written


@pytest.mark.parametrize("limits", [{}, {"maxBytesPerTrigger": 50_000}])
def test_damage_in_the_last_file_does_not_end_a_stream_in_silence(
    spark: Any, clean_store: RecordedStore, tmp_path: Path, limits: dict[str, int]
) -> None:
    written = [message["commitLogOffset"] for message in clean_store.messages]
    victims = [at for at in written if at >= 262144][5::20]
    for at in victims:
        damage(clean_store, at + 4, b"\xff\xff\xff\xff")
    table = tmp_path / "table"
    with pytest.raises(Exception, match=r"damaged.*failOnDataLoss=false"):
        to_the_present(spark, clean_store, table, **limits)
    to_the_present(spark, clean_store, table, failOnDataLoss=False, **limits)
    assert offsets(spark, table) == sorted({*written} - {*victims})
    to_the_present(spark, clean_store, table, **limits)  # what was passed over stays so


def test_a_stream_that_begins_with_damage_says_so(clean_store: RecordedStore) -> None:
    written = [message["commitLogOffset"] for message in clean_store.messages]
    damage(clean_store, written[30], bytes(88))
    given = {"path": str(clean_store.path), "maxbytespertrigger": "20000"}
    stream = CommitlogStream(CommitlogOptions.parse(given), default_schema(broker_known=False))
    store, start = str(clean_store.path), {str(clean_store.path): written[30]}
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert end == {store: written[31]}
    (partition,) = stream.partitions(start, end)
    with pytest.raises(StoreError, match=f"bytes {written[30]} to {written[31]} of the log are damaged"):
        list(stream.read(partition))


def test_what_a_broker_writes_while_it_is_looked_at_is_not_taken_for_damage(
    clean_store: RecordedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = log_files(str(clean_store.path / "commitlog"))
    last, message = Path(files[-1].path), clean_store.messages[-20]
    whole, half = last.read_bytes(), message["commitLogOffset"] - files[-1].base + 100
    last.write_bytes(whole[:half] + bytes(len(whole) - half))

    def search_when_more_is_written(*arguments: Any) -> int:
        with open(last, "r+b") as file:
            file.write(whole)
        return find_sync(*arguments)

    monkeypatch.setattr(log_reader, "find_sync", search_when_more_is_written)
    end = clean_store.messages[-1]["commitLogOffset"] + clean_store.messages[-1]["storeSize"]
    assert log_end(files, files[0].base, fail=True) == end


@pytest.mark.parametrize("split", [20_000, 64 << 20])
def test_nul_bytes_are_read_and_not_taken_for_the_end_of_the_log(split: int, tmp_path: Path) -> None:
    """Bodies and properties of zeros, longer than what an unwritten rest is told by."""
    store = MessageStore(StoreOptions(root=tmp_path, commitlog_file_size=1 << 20, index_enabled=False), Env())
    store.open()
    written = [
        store.append(unit(body=b"\0" * size, pad="\0" * (size % 30_000))).physical_offset
        for size in (1, 600, 70_000, 200_000, 3, 300_000, 140_000, 90_000, 250_000, 1100)
    ]
    asyncio.run(store.close())
    files = log_files(str(tmp_path / "commitlog"))
    last = log_reader.written_files(files)[-1]
    ranges = log_reader.plan_ranges(files, last, split)
    tables = [table for part in ranges for table in log_reader.read_range(part, fail=True)]
    assert [int(at) for table in tables for at in table.physical_offsets] == written
    assert all(table.intact().all() for table in tables)
    assert log_end(files, 0, fail=True) == store.log_max
