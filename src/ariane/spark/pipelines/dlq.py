"""Dead letters: what fails, since when, from which topic, with samples."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ariane.message import DLQ_PREFIX, RETRY_TOPIC


def dead_letters(rows: DataFrame) -> DataFrame:
    """The messages of `%DLQ%` topics, with the group that gave up and the topic they came from."""
    return rows.where(F.col("topic").startswith(DLQ_PREFIX)).select(
        F.substring_index("topic", DLQ_PREFIX, -1).alias("group"),
        property_of(RETRY_TOPIC).alias("from_topic"),
        "*",
    )


def property_of(name: str) -> Column:
    """One property out of the raw string."""
    return F.nullif(F.regexp_extract("properties", f"(?:^|\x02){name}\x01([^\x02]*)", 1), F.lit(""))


def summary(rows: DataFrame, samples: int = 3) -> DataFrame:
    """By group, origin and tag: how many, since when, the last one, and a few of them."""
    sample = F.struct(
        "msgId", "keys", "reconsumeTimes", F.substring(F.col("body").cast("string"), 1, 200).alias("body")
    )
    return (
        dead_letters(rows)
        .groupBy("group", "from_topic", "tags")
        .agg(
            F.count("*").alias("messages"),
            F.min("storeTimestamp").alias("since"),
            F.max("storeTimestamp").alias("last"),
            F.max("reconsumeTimes").alias("tries"),
            F.slice(F.collect_list(sample), 1, samples).alias("samples"),
        )
        .orderBy(F.desc("messages"))
    )
