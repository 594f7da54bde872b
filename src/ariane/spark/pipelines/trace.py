"""The trace topic, parsed: how long from sending to consuming, how often again, how often well.

The format is in `ariane.client.observe.trace`: records end with U+0002, their fields are parted by U+0001.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_RECORD = "\x02"
_FIELD = "\x01"


def records(rows: DataFrame) -> DataFrame:
    """One row for each record, with its kind and its fields as text."""
    text = F.col("body").cast("string")
    fields = rows.select(F.explode(F.split(text, _RECORD)).alias("record")).where("record <> ''")
    return fields.select(F.split("record", _FIELD).alias("f")).withColumn("kind", F.col("f")[0])


def _field(number: int) -> Column:
    return F.get("f", F.lit(number))


def _time(number: int) -> Column:
    return F.timestamp_millis(_field(number).cast("bigint"))


def sends(rows: DataFrame) -> DataFrame:
    """Who sent what, when, and how long it took."""
    return (
        records(rows)
        .where("kind = 'Pub'")
        .select(
            _field(5).alias("msgId"),
            _time(1).alias("sent"),
            _field(3).alias("producer"),
            _field(4).alias("topic"),
            _field(6).alias("tags"),
            _field(7).alias("keys"),
            _field(9).cast("bigint").alias("bytes"),
            _field(10).cast("bigint").alias("cost_ms"),
            (_field(13) == "true").alias("stored"),
        )
    )


def deliveries(rows: DataFrame) -> DataFrame:
    """Every time that a message reached a listener, and what came of it."""
    parsed = records(rows)
    before = parsed.where("kind = 'SubBefore'").select(
        _field(4).alias("request"),
        _field(5).alias("msgId"),
        _time(1).alias("delivered"),
        _field(3).alias("consumer"),
        _field(6).cast("int").alias("retry"),
    )
    after = parsed.where("kind = 'SubAfter'").select(
        _field(1).alias("request"),
        _field(2).alias("msgId"),
        _field(3).cast("bigint").alias("consume_ms"),
        (_field(4) == "true").alias("consumed"),
    )
    return before.join(after, ["request", "msgId"], "left")


def summary(rows: DataFrame) -> DataFrame:
    """By topic and group: messages, latency from sending to the first delivery, retries and success."""
    told = deliveries(rows).join(sends(rows).select("msgId", "topic", "sent"), "msgId")
    wait = F.unix_millis("delivered") - F.unix_millis("sent")
    return (
        told.groupBy("topic", "consumer")
        .agg(
            F.countDistinct("msgId").alias("messages"),
            F.count("*").alias("deliveries"),
            F.percentile_approx(F.when(F.col("retry") == 0, wait), 0.5).alias("send_to_consume_ms_p50"),
            F.percentile_approx(F.when(F.col("retry") == 0, wait), 0.99).alias("send_to_consume_ms_p99"),
            F.percentile_approx("consume_ms", 0.5).alias("consume_ms_p50"),
            F.max("retry").alias("most_retries"),
            F.avg(F.coalesce("consumed", F.lit(False)).cast("double")).alias("success_rate"),
        )
        .orderBy("topic", "consumer")
    )
