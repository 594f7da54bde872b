"""`spark.read` and `spark.readStream.format("rocketmq-commitlog")`: store folders read without a broker."""

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from ariane.spark.commitlog_options import CommitlogOptions
from ariane.spark.commitlog_reader import CommitlogReader
from ariane.spark.commitlog_stream import CommitlogStream
from ariane.spark.schema import default_schema


class CommitlogSource(DataSource):
    """RocketMQ store folders as a Spark data source."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.parsed = CommitlogOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return "rocketmq-commitlog"

    def schema(self) -> StructType:
        return default_schema(broker_known=self.parsed.broker_name is not None)

    def reader(self, schema: StructType) -> DataSourceReader:
        return CommitlogReader(self.parsed, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return CommitlogStream(self.parsed, schema)
