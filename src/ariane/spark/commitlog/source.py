"""`spark.read` and `spark.readStream.format("rocketmq-commitlog")`: store folders read without a broker."""

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from ariane.errors import ConfigError
from ariane.spark.arrow.schema import default_schema
from ariane.spark.commitlog.options import CommitlogOptions
from ariane.spark.commitlog.reader import CommitlogReader
from ariane.spark.commitlog.stream import CommitlogStream


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
        if self.parsed.max_bytes is not None:
            raise ConfigError("option maxBytesPerTrigger has no meaning in a batch read")
        return CommitlogReader(self.parsed, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self.parsed.by_queue:
            raise ConfigError("option through=consumequeue has no meaning in a stream: it follows the log")
        if self.parsed.min_partitions > 1:
            raise ConfigError("option minPartitions has no meaning in a stream: give splitBytes")
        return CommitlogStream(self.parsed, schema)
