"""An archive, or a time range of it, back into a topic: keys, tags and properties as they were, in order per queue."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ariane.message import (
    CLUSTER,
    DELAY,
    DELIVER_TIME,
    KEYS,
    MSG_REGION,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TIMER_DELIVER_MS,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    WAIT,
)
from ariane.spark.options import SparkOptions
from ariane.spark.pipelines.archive import read_archive
from ariane.spark.pipelines.folders import Folder
from ariane.spark.pipelines.replay_state import Part, State, last_offsets, offset_in, queue
from ariane.spark.sink.checks import TRY

REPLAY_OF: Final = "REPLAY_OF"  # property of a replayed message: the id of the one it repeats
_OWN: Final = (  # set by the sink or the broker, or meaningless for a second sending
    CLUSTER, DELAY, DELIVER_TIME, KEYS, MSG_REGION, PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC, TAGS, TIMER_DELIVER_MS,
    TRACE_ON, TRANSACTION_PREPARED, UNIQUE_KEY, WAIT, TRY, REPLAY_OF,
)  # fmt: skip


@dataclass(frozen=True)
class Replay:
    """What to replay, where to, and how fast."""

    archive: str
    topic: str
    target: str
    name_server: str
    state: str  # a folder with the progress; the same replay resumes from it
    start: str = ""  # times of storing: milliseconds, or as 2026-01-31T12:00:00 (UTC)
    end: str = ""
    rate: int | None = None  # messages a second
    delivery: str = "at-least-once"
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        self.range_ms()

    def range_ms(self) -> tuple[int | None, int | None]:
        """The range in milliseconds; ConfigError names a malformed time."""
        given = SparkOptions({"start": self.start, "end": self.end})
        return given.milliseconds("start"), given.milliseconds("end")

    @property
    def name(self) -> str:
        """Identifies the replay of these messages to this target."""
        return blake2b(repr((self.topic, self.target, self.range_ms())).encode(), digest_size=8).hexdigest()


def run_replay(spark: SparkSession, replay: Replay) -> Iterator[tuple[str, int]]:
    """Replay hour by hour; yields each hour with its number of messages when it is done."""
    folder = Folder(spark, replay.state)
    state = State(folder, replay.name)
    rows = _chosen(spark, replay)
    if state.begun is not None:
        part = state.last_part(state.begun)
        yield part.hour, _send(rows, part, replay, folder, state)
    for hour in [row.hour for row in rows.select("hour").distinct().orderBy("hour").collect()]:
        found = last_offsets(rows.where((F.col("hour") == hour) & (F.col("queueOffset") > offset_in(state.ends(hour)))))
        if found:
            yield hour, _send(rows, state.begin(hour, found), replay, folder, state)


def _send(rows: DataFrame, part: Part, replay: Replay, folder: Folder, state: State) -> int:
    chosen = part.of(rows)
    queues = chosen.groupBy(queue()).count().collect()
    tasks, rate = shares(len(queues), rows.sparkSession.sparkContext.defaultParallelism, replay.rate)
    ordered = chosen.repartition(tasks, queue()).sortWithinPartitions(queue(), "queueOffset")
    writer = messages(ordered).write.format("rocketmq").mode("append").options(**dict(replay.options))
    writer.options(**_settings(replay, part, folder), **rate).save()
    state.done()
    return sum(row["count"] for row in queues)


def shares(queues: int, cores: int, rate: int | None) -> tuple[int, dict[str, int]]:
    """How many tasks send, and the option that says how fast each may: together they keep to the rate.

    >>> shares(queues=8, cores=4, rate=1000)
    (4, {'rate': 250})
    >>> shares(queues=8, cores=4, rate=3)
    (3, {'rate': 1})
    """
    tasks = max(1, min(queues, cores, rate or cores))
    return tasks, {} if rate is None else {"rate": rate // tasks}


def _settings(replay: Replay, part: Part, folder: Folder) -> dict[str, Any]:
    write = f"replay-{replay.name}-{part.hour}-{part.number}"
    return {
        "nameServer": replay.name_server,
        "topic": replay.target,
        "delivery": replay.delivery,
        "checkpointLocation": folder.at(write),
        "writeId": write,
    }


def _chosen(spark: SparkSession, replay: Replay) -> DataFrame:
    rows = read_archive(spark, replay.archive).where(F.col("topic") == replay.topic)
    start, end = replay.range_ms()
    if start is not None:
        rows = rows.where(F.col("storeTimestamp") >= F.timestamp_millis(F.lit(start)))
    if end is not None:
        rows = rows.where(F.col("storeTimestamp") < F.timestamp_millis(F.lit(end)))
    return rows


def messages(rows: DataFrame) -> DataFrame:
    """Archived rows in the sink's columns; rows of one queue go to one queue, in order."""
    return rows.select(
        "body",
        "tags",
        "keys",
        _properties().alias("properties"),
        queue().alias("hashKey"),
    )


def _properties() -> Column:
    """The sender's own properties, and which message this one repeats."""
    pairs = F.filter(F.split("properties", "\x02"), lambda pair: pair.contains("\x01"))
    entries = F.transform(pairs, _entry)
    own = F.filter(entries, lambda entry: ~entry["name"].isin(*_OWN))
    return F.map_concat(F.map_from_entries(own), F.create_map(F.lit(REPLAY_OF), F.col("msgId")))


def _entry(pair: Column) -> Column:
    name = F.substring_index(pair, "\x01", 1)
    value = F.substr(pair, F.length(name) + 2)
    return F.struct(name.alias("name"), value.alias("value"))
