"""An archive, or a time range of it, back into a topic: keys, tags and properties as they were, in order per queue."""

from collections.abc import Iterator
from dataclasses import dataclass
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
from ariane.spark.checks import TRY
from ariane.spark.pipelines.archive import read_archive
from ariane.spark.pipelines.folders import Folder

REPLAY_OF: Final = "REPLAY_OF"  # property of a replayed message: the id of the one it repeats
STATE: Final = "replayed.json"
_OWN: Final = (  # set anew by the sink or the broker, or of no meaning outside the first sending
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
    state: str  # a folder that remembers what is done; a replay with the same one goes on
    start: str = ""  # times of storing, in any form that Spark reads as a timestamp
    end: str = ""
    rate: int | None = None  # messages a second
    delivery: str = "at-least-once"
    options: tuple[tuple[str, str], ...] = ()


def run_replay(spark: SparkSession, replay: Replay) -> Iterator[tuple[str, int]]:
    """Replay hour by hour; yields each hour with its number of messages when it is done."""
    folder = Folder(spark, replay.state)
    done: list[str] = folder.read_json(STATE) or []
    rows = _chosen(spark, replay)
    for hour in [row.hour for row in rows.select("hour").distinct().orderBy("hour").collect()]:
        if hour not in done:
            count = _replay_hour(rows.where(F.col("hour") == hour), replay, folder, hour)
            done.append(hour)
            folder.write_json(STATE, done)
            yield hour, count


def _chosen(spark: SparkSession, replay: Replay) -> DataFrame:
    rows = read_archive(spark, replay.archive).where(F.col("topic") == replay.topic)
    if replay.start:
        rows = rows.where(F.col("storeTimestamp") >= F.lit(replay.start).cast("timestamp"))
    if replay.end:
        rows = rows.where(F.col("storeTimestamp") < F.lit(replay.end).cast("timestamp"))
    return rows


def _replay_hour(rows: DataFrame, replay: Replay, folder: Folder, hour: str) -> int:
    queues = rows.select("brokerName", "queueId").distinct().count()
    tasks = max(1, min(queues, rows.sparkSession.sparkContext.defaultParallelism))
    ordered = rows.repartition(tasks, "brokerName", "queueId")
    ordered = ordered.sortWithinPartitions("brokerName", "queueId", "queueOffset")
    writer = messages(ordered).write.format("rocketmq").mode("append").options(**dict(replay.options))
    settings: dict[str, Any] = {
        "nameServer": replay.name_server,
        "topic": replay.target,
        "delivery": replay.delivery,
        "checkpointLocation": folder.at(hour),
        "writeId": f"replay/{replay.topic}/{hour}",
    }
    if replay.rate is not None:
        settings["rate"] = max(1, replay.rate // tasks)
    writer.options(**settings).save()
    return rows.count()


def messages(rows: DataFrame) -> DataFrame:
    """Archived rows as the sink takes them; rows of one queue go to one queue, in their order."""
    return rows.select(
        "body",
        "tags",
        "keys",
        _properties().alias("properties"),
        F.concat_ws("/", F.col("brokerName"), F.col("queueId").cast("string")).alias("hashKey"),
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
