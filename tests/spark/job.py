"""A streaming job in a process of its own, to be killed: a topic to Parquet, or to another topic exactly once.

python -m tests.spark.job FOLDER MODE NAME_SERVER TOPIC [TARGET]
"""

import sys

from pyspark.sql import SparkSession

from tests.spark.conftest import QUICK_JVM


def main(folder: str, mode: str, name_server: str, topic: str, target: str = "") -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", QUICK_JVM)
        .config("spark.local.dir", f"{folder}/local")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    reader = spark.readStream.format("rocketmq").option("nameServer", name_server).option("topic", topic)
    per_batch = 40_000 if mode == "parquet" else 500
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", per_batch)
    if mode == "parquet":
        rows = reader.schema("keys string, queueId int, queueOffset bigint").load()
        writer = rows.writeStream.format("parquet").option("path", f"{folder}/table")
    else:
        rows = reader.schema("body binary").load()
        writer = rows.writeStream.format("rocketmq").option("nameServer", name_server).option("topic", target)
        writer = writer.option("delivery", "exactly-once")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
