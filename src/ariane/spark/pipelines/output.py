"""Results of pipelines as messages."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def as_messages(frame: DataFrame) -> DataFrame:
    """Rows as JSON bodies; those that have a topic get it as their key."""
    body = F.to_json(F.struct("*")).alias("body")
    return frame.select(body, F.col("topic").alias("keys")) if "topic" in frame.columns else frame.select(body)


def windows_to_topic(frame: DataFrame, name_server: str, topic: str, options: Mapping[str, str]) -> None:
    """Send the rows of a batch to a topic."""
    writer = as_messages(frame).write.format("rocketmq").mode("append")
    writer.option("nameServer", name_server).option("topic", topic).options(**options).save()
