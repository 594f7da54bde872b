"""A Spark session that does a little of what tests do: `python small_session.py JVM_FLAGS`."""

import sys
import tempfile

from pyspark.sql import SparkSession


def main(flags: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", flags)
            .config("spark.local.dir", f"{folder}/local")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        rows = spark.range(100).selectExpr("id", "id % 7 as rest", "cast(id as string) as text").repartition(2)
        rows = rows.mapInArrow(lambda batches: batches, rows.schema)
        rows.groupBy("rest").count().orderBy("rest").collect()
        rows.write.parquet(f"{folder}/rows")
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").writeStream.format("parquet")
        stream = stream.option("path", f"{folder}/copy").option("checkpointLocation", f"{folder}/checkpoint")
        stream.trigger(availableNow=True).start().awaitTermination()
        assert spark.read.parquet(f"{folder}/copy").where("rest = 3").count() == 14
        spark.stop()


main(sys.argv[1])
