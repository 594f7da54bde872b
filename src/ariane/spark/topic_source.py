"""`spark.read` and `spark.readStream.format("rocketmq")`: topics of a cluster, ours or Apache's."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from ariane.errors import ConfigError
from ariane.spark.access import ACCESS_OPTIONS
from ariane.spark.cluster import Cluster
from ariane.spark.options import Given
from ariane.spark.schema import DEFAULT_SCHEMA, arrow_schema
from ariane.spark.sink_options import SINK_OPTIONS, SinkOptions
from ariane.spark.sink_writer import BatchSink, Sink, StreamSink
from ariane.spark.topic_options import SOURCE_OPTIONS, TopicOptions
from ariane.spark.topic_plan import end_offsets, queues_of, slices, start_offsets
from ariane.spark.topic_stream import SlicePartition, TopicStream, read_partition


class TopicReader(DataSourceReader):
    """A batch read: from the starting to the ending offsets, as they are when the query is planned."""

    def __init__(self, options: TopicOptions, schema: StructType) -> None:
        self.options = options
        self.schema = arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        with Cluster(self.options.access) as cluster:
            bounds = cluster.bounds(queues_of(cluster, self.options))
            start = start_offsets(cluster, self.options, bounds)
            end = end_offsets(cluster, self.options, bounds)
            return [SlicePartition(part) for part in slices(cluster, start, end, self.options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema)


class RocketmqSource(DataSource):
    """RocketMQ topics as a Spark data source and sink."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        Given.check(options, {*ACCESS_OPTIONS, *SOURCE_OPTIONS, *SINK_OPTIONS}, "rocketmq")

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return DEFAULT_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return TopicReader(TopicOptions.parse(self.options, streaming=False), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        return BatchSink(Sink(SinkOptions.parse(self.options), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamSink(Sink(SinkOptions.parse(self.options), schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TopicStream(TopicOptions.parse(self.options, streaming=True), schema)
