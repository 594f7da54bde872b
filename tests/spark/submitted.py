"""What `spark-submit` runs in the cluster test: it knows nothing but its arguments."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ariane.spark import register

name_server, topic, target, result, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)  # Spark looks for sources where packages are installed, not among shipped files
reader = spark.read.format("rocketmq").option("nameServer", name_server).option("topic", topic)
rows = reader.option("minPartitions", 2).load()
total = rows.agg(F.sum(F.col("body").cast("string").cast("bigint"))).first()[0]
writer = rows.select("body", "tags").write.format("rocketmq").mode("append").option("nameServer", name_server)
writer.option("topic", target).save()
stream = spark.readStream.format("rocketmq").option("nameServer", name_server).option("topic", topic)
stream = stream.option("startingOffsets", "earliest").load().select("body", "tags").writeStream.format("rocketmq")
stream = stream.option("nameServer", name_server).option("topic", target).option("delivery", "exactly-once")
stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def where(_: object) -> list[str]:
    import os

    import ariane

    return [f"{os.getppid()} {ariane.__file__}"]


places = spark.sparkContext.parallelize(range(8), 8).flatMap(where).distinct().collect()
Path(result).write_text("\n".join([str(total), *places]))
spark.stop()
