"""From `ariane up` to a live windowed count: python examples/live_count.py [NAME SERVER'S PORT] [BROKER'S PORT]"""

import atexit
import subprocess
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ariane import Message, Producer

# %% A cluster: the name server and a broker, with messages in ./store
names, broker = sys.argv[1:] or ("9876", "10911")
command = ["ariane", "up", "--namesrv-port", names, "--broker-port", broker]
cluster = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
atexit.register(cluster.terminate)
next(line for line in cluster.stdout if "Ctrl-C stops it" in line)


# %% Some orders
def sell() -> None:
    with Producer("shop", name_servers=f"127.0.0.1:{names}") as shop:
        for number in range(300):
            shop.send(Message("orders", b'{"amount": %d}' % number, tags="paid" if number % 3 else "open"))


sell()

# %% How many there are each minute
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
orders = spark.readStream.format("rocketmq").option("nameServer", f"127.0.0.1:{names}").option("topic", "orders")
orders = orders.option("startingOffsets", "earliest").load().withWatermark("bornTimestamp", "1 minute")
counts = orders.groupBy(F.window("bornTimestamp", "1 minute"), "tags").count()
query = counts.writeStream.outputMode("complete").format("console").start()

# %% The count goes on while orders come
for _ in range(3):
    query.processAllAvailable()
    sell()
query.processAllAvailable()
query.stop()
