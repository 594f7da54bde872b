"""From nothing to a live windowed count: run `ariane up` in another terminal, then `python examples/live_count.py`."""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ariane import Message
from ariane.client.sync import Producer

name_server = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

with Producer("shop", name_servers=name_server) as shop:
    for number in range(1000):
        shop.send(Message("orders", b'{"amount": %d}' % number, tags="paid" if number % 3 else "open"))

spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
orders = spark.readStream.format("rocketmq").option("nameServer", name_server).option("topic", "orders")
orders = orders.option("startingOffsets", "earliest").load().withWatermark("bornTimestamp", "1 minute")
counts = orders.groupBy(F.window("bornTimestamp", "1 minute"), "tags").count()
query = counts.writeStream.outputMode("complete").format("console").trigger(availableNow=True).start()
query.awaitTermination()
