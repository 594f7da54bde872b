"""Readings of devices to Parquet: python examples/iot_readings.py FOLDER

Devices send JSON, each to the queue of its own, so that its readings stay in order. Spark reads the topic as a stream,
computes an average per device, and writes the result to FOLDER; the checkpoint there lets the next run go on where this
one ended.
"""

import json
import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ariane import Message, Producer

DEVICES, READINGS = 5, 40
name_servers = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
folder = sys.argv[1] if len(sys.argv) > 1 else "iot"

# %% The devices
with Producer("devices", name_servers=name_servers, batching=True) as producer:
    futures = []
    for number in range(READINGS):
        for device in range(DEVICES):
            reading = {"device": f"sensor-{device}", "celsius": 20.0 + device + (number % 2)}
            message = Message("readings", json.dumps(reading).encode(), keys=reading["device"])
            futures.append(producer.submit(message, hash_key=reading["device"]))
    for future in futures:
        future.result()
print(f"{DEVICES * READINGS} readings sent")

# %% The stream
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
readings = (
    spark.readStream.format("rocketmq")
    .option("nameServer", name_servers)
    .option("topic", "readings")
    .option("startingOffsets", "earliest")
    .load()
    .select(F.from_json(F.col("body").cast("string"), "device string, celsius double").alias("reading"))
    .select("reading.*")
)


def store(batch: DataFrame, number: int) -> None:
    """Write the averages of one micro-batch; a batch that is repeated after a crash replaces its own folder."""
    averages = batch.groupBy("device").agg(F.avg("celsius").alias("celsius"), F.count("*").alias("readings"))
    averages.write.mode("overwrite").parquet(f"{folder}/averages/batch={number}")


query = (
    readings.writeStream.foreachBatch(store)
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# %% What was stored
stored = spark.read.parquet(f"{folder}/averages")
totals = stored.groupBy("device").agg(F.sum("readings").alias("n"), F.avg("celsius").alias("celsius"))
for row in totals.orderBy("device").collect():
    print(row["device"], row["n"], row["celsius"])
spark.stop()
