"""Registering the sources by hand, where Spark does not find them: with `--py-files` it looks for none."""

from pyspark.sql import SparkSession

from ariane.spark.commitlog_source import CommitlogSource
from ariane.spark.topic_source import RocketmqSource


def register(spark: SparkSession) -> None:
    """Make the formats `rocketmq` and `rocketmq-commitlog` known to a session."""
    spark.dataSource.register(RocketmqSource)
    spark.dataSource.register(CommitlogSource)
