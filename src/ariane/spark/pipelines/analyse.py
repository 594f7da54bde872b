"""Analyse a topic: counts, times, latencies, producers, and the fields of JSON bodies."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import AtomicType, DataType, NumericType, StructType

from ariane.errors import ConfigError
from ariane.spark.pipelines.origin import Origin, Stores, stream


@dataclass(frozen=True)
class Questions:
    """What to ask of the messages."""

    window: str = "1 minute"
    watermark: str = "10 minutes"  # a message stored so long after it was born is late
    top: int = 20
    body_schema: str = ""  # of JSON bodies, as Spark's DDL: "amount double, city string"


@dataclass
class Answers:
    """The results: small frames, each with a name, that were computed once."""

    questions: Questions
    totals: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def latency() -> Column:
    """Milliseconds from birth at the sender to storing at the broker."""
    return F.unix_millis("storeTimestamp") - F.unix_millis("bornTimestamp")


def late(questions: Questions) -> Column:
    """Whether a message was stored later after its birth than the watermark waits."""
    return F.col("storeTimestamp") > F.col("bornTimestamp") + F.expr(f"INTERVAL {questions.watermark}")


def windowed(rows: DataFrame, questions: Questions) -> DataFrame:
    """Counts, bytes and latencies by topic and window of the birth time; for batches and streams alike.

    With a schema of the bodies there is a column `fields` too: of each field how often it is there, and its range.
    """
    measures = [
        F.count("*").alias("messages"),
        F.sum(F.length("body")).alias("bytes"),
        F.count_if(late(questions)).alias("late"),
        F.percentile_approx(latency(), 0.5).alias("latency_ms_p50"),
        F.percentile_approx(latency(), 0.99).alias("latency_ms_p99"),
        F.max(latency()).alias("latency_ms_max"),
    ]
    if questions.body_schema:
        rows = typed(rows, questions.body_schema)
        measures.append(_measured_fields(rows).alias("fields"))
    counted = (
        rows.withWatermark("bornTimestamp", questions.watermark)
        .groupBy("topic", F.window("bornTimestamp", questions.window).alias("window"))
        .agg(*measures)
    )
    times = F.col("window.start").alias("from"), F.col("window.end").alias("to")
    return counted.select("topic", *times, *counted.columns[2:])


def start_windows(
    spark: SparkSession, origin: Origin, questions: Questions, path: str, checkpoint: str
) -> StreamingQuery:
    """Append the windows that are over to a Parquet table, up to the present; the next run goes on from there.

    A window is over when a message was born later than its end by the watermark. What is later than that is in no
    window; the query's progress tells how many were late, as its metric `late`.
    """
    if not path:
        raise ConfigError("an analysis that goes on needs a folder for its windows: --parquet")
    rows = stream(spark, _from_the_beginning(origin)).observe("late", F.count_if(late(questions)).alias("late"))
    writer = windowed(rows, questions).writeStream.format("parquet").outputMode("append").option("path", path)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def _from_the_beginning(origin: Origin) -> Origin:
    """Read topics from their first message unless a start is given; stores are always read so."""
    if isinstance(origin, Stores) or any(name.lower().startswith("starting") for name in origin.options):
        return origin
    return replace(origin, options={**origin.options, "startingOffsets": "earliest"})


def analyse(rows: DataFrame, questions: Questions) -> Answers:
    """Answer every question over a batch of messages."""
    rows = rows.persist()
    try:
        answers = Answers(questions, _totals(rows, questions))
        answers.tables["windows"] = _collect(windowed(rows, questions).drop("fields").orderBy("topic", "from"))
        answers.tables["latencies"] = _latencies(rows)
        for name, column in (("keys", "keys"), ("tags", "tags"), ("producers", "producer")):
            answers.tables[f"top {name}"] = _top(rows, column, questions.top)
        if questions.body_schema:
            answers.tables["fields"] = fields(rows, questions.body_schema)
        return answers
    finally:
        rows.unpersist()


def _collect(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows of a small result; times are in UTC, not in the driver's zone as Spark gives them."""
    return [{name: _utc(value) for name, value in row.asDict().items()} for row in frame.collect()]


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _totals(rows: DataFrame, questions: Questions) -> dict[str, Any]:
    queue = F.struct(F.coalesce("brokerName", "storeHost"), "topic", "queueId")  # stores do not name their broker
    (totals,) = _collect(
        rows.agg(
            F.count("*").alias("messages"),
            F.sum(F.length("body")).alias("bytes"),
            F.countDistinct("topic").alias("topics"),
            F.countDistinct(queue).alias("queues"),
            F.min("storeTimestamp").alias("first"),
            F.max("storeTimestamp").alias("last"),
            F.count_if(late(questions)).alias("late"),
            F.percentile_approx(latency(), 0.5).alias("latency_ms_p50"),
            F.percentile_approx(latency(), 0.99).alias("latency_ms_p99"),
            F.max(latency()).alias("latency_ms_max"),
        )
    )
    return totals


def _latencies(rows: DataFrame) -> list[dict[str, Any]]:
    """How many messages took how long, in steps of powers of two."""
    step = F.when(latency() < 1, 0).otherwise(F.floor(F.log2(latency())) + 1)
    counted = rows.groupBy(step.cast("int").alias("step")).count().orderBy("step")
    return [{"below_ms": 2**row.step, "messages": row["count"]} for row in counted.collect()]


def _top(rows: DataFrame, column: str, count: int) -> list[dict[str, Any]]:
    """The most frequent values; a message with several keys counts for each, a sender is a host without its port."""
    values = {
        "keys": F.explode(F.split("keys", " ")),
        "tags": F.col("tags"),
        "producer": F.regexp_replace("bornHost", r":\d+$", ""),
    }
    named = rows.select(values[column].alias("value")).where("value is not null and value <> ''")
    return _collect(named.groupBy("value").count().orderBy(F.desc("count"), "value").limit(count))


def typed(rows: DataFrame, schema: str) -> DataFrame:
    """The rows with the fields of their JSON bodies as columns of `value`; null where a body is no such JSON."""
    return rows.withColumn("value", F.from_json(F.col("body").cast("string"), schema))


def fields(rows: DataFrame, schema: str) -> list[dict[str, Any]]:
    """For each field of JSON bodies how often it is there, and its range."""
    values = typed(rows, schema)
    ((count, found),) = values.agg(F.count("*"), _measured_fields(values)).collect()
    return [
        {"field": name, "missing": count - measured["present"], **_in_words(measured.asDict())}
        for name, measured in found.asDict().items()
    ]


def _in_words(measured: dict[str, Any]) -> dict[str, Any]:
    """Least and greatest of different fields are of different types, so in one table they are text."""
    return measured | {name: str(measured[name]) for name in ("min", "max") if measured[name] is not None}


def _measured_fields(rows: DataFrame) -> Column:
    """A column for each field of `value`, to aggregate."""
    kind = rows.schema["value"].dataType
    assert isinstance(kind, StructType)
    return F.struct(*(_measured(F.col("value")[field.name], field.dataType).alias(field.name) for field in kind))


def _measured(value: Column, kind: DataType) -> Column:
    """Only plain values have a range, only numbers a mean."""
    nothing = F.lit(None)
    return F.struct(
        F.count(value).alias("present"),
        (F.min(value) if isinstance(kind, AtomicType) else nothing.cast("string")).alias("min"),
        (F.max(value) if isinstance(kind, AtomicType) else nothing.cast("string")).alias("max"),
        (F.avg(value) if isinstance(kind, NumericType) else nothing.cast("double")).alias("mean"),
    )
