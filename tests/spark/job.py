"""Two streaming queries in a process of their own, to be killed: a topic to Parquet, and one to another exactly once.

python -m tests.spark.job MASTER END PER_BATCH FOLDER NAME_SERVER TABLE_TOPIC FROM_TOPIC TO_TOPIC

END is `never`, or `present` for a job that ends when it has read all; PER_BATCH bounds a batch of the table.
"""

import sys
from typing import Any

from pyspark.sql import SparkSession

from ariane.spark import register
from tests.spark.quick_jvm import quick_jvm

STARTED = "both queries run"


def session(master: str, folder: str) -> SparkSession:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", quick_jvm())
        .config("spark.executor.extraJavaOptions", quick_jvm())
        .config("spark.local.dir", f"{folder}/local")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")  # into the log that the test shows when the job fails
    register(spark)  # two streams start at once
    return spark


def reader(spark: SparkSession, name_server: str, topic: str, per_batch: int) -> Any:
    source = spark.readStream.format("rocketmq").option("nameServer", name_server).option("topic", topic)
    return source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", per_batch)


def main(
    master: str,
    end: str,
    per_batch: str,
    folder: str,
    name_server: str,
    table_topic: str,
    from_topic: str,
    to_topic: str,
) -> None:
    spark = session(master, folder)
    rows = reader(spark, name_server, table_topic, int(per_batch))
    rows = rows.schema("keys string, queueId int, queueOffset bigint").load()
    table = rows.writeStream.format("parquet").option("path", f"{folder}/table")
    copy = reader(spark, name_server, from_topic, 500).schema("body binary").load().writeStream.format("rocketmq")
    copy = copy.option("nameServer", name_server).option("topic", to_topic).option("delivery", "exactly-once")
    trigger: dict[str, Any] = {"availableNow": True} if end == "present" else {"processingTime": "0 seconds"}
    queries = [
        writer.option("checkpointLocation", f"{folder}/{name}").trigger(**trigger).start()
        for name, writer in (("table-checkpoint", table), ("copy-checkpoint", copy))
    ]
    print(STARTED, flush=True)
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
