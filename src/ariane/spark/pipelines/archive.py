"""Topics or whole store folders to Parquet (or Delta), each message once, by topic and hour.

A batch is written aside, then its files are moved into the table under names that carry the batch's number. A batch
that is run again after a crash first removes what it had moved before: so the table never has a row twice.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType

from ariane.errors import ConfigError
from ariane.spark.arrow.schema import default_schema
from ariane.spark.pipelines.compaction import CHECKPOINT, batch_of, last_batch, recover
from ariane.spark.pipelines.folders import NOTES, Folder
from ariane.spark.pipelines.origin import Origin, Stores, Topics, stream

STAGING: Final = f"{NOTES}/staging"
FILTERS: Final = f"{NOTES}/filters.json"

# said, for Spark would make a number of a topic 007
_SCHEMA: Final = default_schema(broker_known=False).add("hour", StringType())


@dataclass(frozen=True)
class Archive:
    """An archive's place and form."""

    path: str
    form: str = "parquet"  # or delta
    max_per_trigger: int = 1_000_000  # messages of topics
    bytes_per_trigger: int = 1 << 30  # bytes of store folders

    def limits(self, origin: Origin) -> dict[str, Any]:
        if isinstance(origin, Topics):
            return {"startingOffsets": "earliest", "maxOffsetsPerTrigger": self.max_per_trigger}
        return {"maxBytesPerTrigger": self.bytes_per_trigger}


def require_delta(spark: SparkSession) -> None:
    """ConfigError, which tells what to do, when this Spark does not know Delta tables."""
    try:
        spark.read.format("delta").load("/")
    except (PySparkException, Py4JJavaError) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):  # any other is Delta's own about this path
            return
        version = ".".join(spark.version.split(".")[:2])
        raise ConfigError(
            f"a Delta table needs Delta's jar, and this Spark {spark.version} has none: give it "
            f"spark.jars.packages=io.delta:delta-spark_{version}_2.13:VERSION and "
            "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension, "
            "if Delta is released for it; Parquet needs nothing"
        ) from None


def start_archive(spark: SparkSession, origin: Origin, archive: Archive, *, continuous: bool = False) -> StreamingQuery:
    """Start archiving: to the present, or on and on. It goes on from where an earlier run ended, however that ended."""
    if archive.form == "delta":
        require_delta(spark)
    folder = Folder(spark, archive.path)
    recover(folder)
    rows = stream(spark, origin, **archive.limits(origin)).withColumn("hour", hour_of("storeTimestamp"))
    if isinstance(origin, Stores):
        _note_filters(folder, origin)
    write = _to_delta(archive) if archive.form == "delta" else _to_parquet(folder)
    writer = rows.writeStream.queryName(f"archive to {archive.path}").foreachBatch(write)
    writer = writer.option("checkpointLocation", folder.at(CHECKPOINT))
    return writer.start() if continuous else writer.trigger(availableNow=True).start()


def hour_of(column: str) -> Column:
    """The hour of a time as 2026-01-31-12, in UTC whatever the session's time zone is."""
    seconds = F.unix_seconds(column)
    day = F.date_from_unix_date(F.floor(seconds / 86400).cast("int")).cast("string")
    return F.concat(day, F.lit("-"), F.lpad((F.floor(seconds / 3600) % 24).cast("string"), 2, "0"))


def _note_filters(folder: Folder, stores: Stores) -> None:
    """A run that leaves messages out is remembered: later ones go on behind what it left out."""
    known = filters_of(folder)
    if new := [one for one in stores.filters() if one not in known]:
        folder.write_json(FILTERS, known + new)


def filters_of(folder: Folder) -> list[str]:
    """The options with which runs into this archive left messages of store folders out."""
    return list(folder.read_json(FILTERS) or [])


def _to_parquet(folder: Folder) -> Callable[[DataFrame, int], None]:
    begun = False

    def write(rows: DataFrame, batch: int) -> None:
        nonlocal begun
        folder.remove(STAGING)
        if not begun:  # only the first batch of a run may be one that was interrupted
            for name in _published(folder, batch):
                folder.remove(name)
            begun = True
        _in_few_files(rows).write.partitionBy("topic", "hour").parquet(folder.at(STAGING))
        for name, _ in list(folder.walk(STAGING)):
            if name.endswith(".parquet"):
                folder.move(name, _public_name(name, batch))
        folder.remove(STAGING)

    return write


def _in_few_files(rows: DataFrame) -> DataFrame:
    """Rows of one queue stay together and in order; without this every task would write a file for every hour."""
    return rows.repartition("topic", "hour", "brokerName", "queueId").sortWithinPartitions(
        "topic", "hour", "brokerName", "queueId", "queueOffset"
    )


def _public_name(name: str, batch: int) -> str:
    *partition, file = name.removeprefix(STAGING + "/").split("/")
    return "/".join((*partition, f"batch-{batch:012d}-{file}"))


def _published(folder: Folder, batch: int) -> list[str]:
    return [name for name, _ in folder.walk() if not name.startswith(NOTES) and batch_of(name) == batch]


def _to_delta(archive: Archive) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, batch: int) -> None:
        """Delta itself leaves out a batch that it has already."""
        writer = _in_few_files(rows).write.format("delta").mode("append").partitionBy("topic", "hour")
        writer.option("txnAppId", archive.path).option("txnVersion", batch).save(archive.path)

    return write


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """The archived rows."""
    if Folder(spark, path).exists("_delta_log"):
        return spark.read.format("delta").load(path)
    return spark.read.schema(_SCHEMA).parquet(path)


def archived_rows(spark: SparkSession, path: str, topic: str = "", pattern: str = "") -> DataFrame:
    """The archived rows of some topics, named as for the sources; of all without a name."""
    rows = read_archive(spark, path)
    if topic:
        rows = rows.where(F.col("topic").isin([name.strip() for name in topic.split(",")]))
    return rows.where(F.col("topic").rlike(f"^(?:{pattern})$")) if pattern else rows


def archived_offsets(spark: SparkSession, path: str) -> dict[str, Any]:
    """Up to where everything is in the archive, in the form of the source's offsets. Only finished batches count."""
    folder = Folder(spark, path)
    done = last_batch(folder)
    if done < 0:
        return {}
    lines = _lines(spark, folder.at(CHECKPOINT, "offsets", str(done)))
    offsets: dict[str, Any] = lines[-1]
    return offsets


def _lines(spark: SparkSession, path: str) -> list[Any]:
    """Spark's offset log: a version, its own settings, then a line for each source."""
    text = "\n".join(row.value for row in spark.read.text(path, wholetext=True).collect())
    return [json.loads(line) for line in text.splitlines()[1:]]
