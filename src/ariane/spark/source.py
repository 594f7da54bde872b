"""`spark.read`, `spark.readStream`, `df.write` and `df.writeStream.format("rocketmq")`: topics of a cluster."""

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ariane.errors import ConfigError
from ariane.spark.access import ACCESS_OPTIONS
from ariane.spark.arrow.schema import default_schema
from ariane.spark.options import SparkOptions
from ariane.spark.sink.options import SINK_OPTIONS, SinkOptions
from ariane.spark.topic.options import SOURCE_OPTIONS, TopicOptions


class RocketmqSource(DataSource):
    """RocketMQ topics as a Spark data source and sink."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        SparkOptions.check(options, {*ACCESS_OPTIONS, *SOURCE_OPTIONS, *SINK_OPTIONS}, "rocketmq")

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return default_schema(broker_known=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ariane.spark.topic.batch import TopicReader

        return TopicReader(TopicOptions.parse(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from ariane.spark.topic.stream import TopicStream

        return TopicStream(TopicOptions.parse(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ariane.spark.sink.writer import BatchSink, Sink

        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        return BatchSink(Sink(SinkOptions.parse(self.options), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ariane.spark.sink.writer import Sink, StreamSink

        options = SinkOptions.parse(self.options)
        if options.write_id is not None:
            raise ConfigError("option writeId is for batch writes: the batches of a stream have numbers")
        return StreamSink(Sink(options, schema))
