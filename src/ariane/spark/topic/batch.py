"""A topic read in batch. Executors import this module, so driver-only imports are local."""

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ariane.spark.arrow.schema import arrow_schema
from ariane.spark.topic.options import TopicOptions
from ariane.spark.topic.pull_range import QueueSlice
from ariane.spark.topic.reader import read_slice
from ariane.spark.worker import spare_collector


class SlicePartition(InputPartition):
    """A slice of one queue, or slices of several small ones."""

    def __init__(self, parts: Sequence[QueueSlice]) -> None:
        self.parts = tuple(parts)


def read_partition(partition: InputPartition, options: TopicOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The record batches of one partition."""
    spare_collector()
    if isinstance(partition, SlicePartition):
        return chain.from_iterable(read_slice(part, options, schema) for part in partition.parts)
    return iter(())  # Spark passes None when there are no partitions


class TopicReader(DataSourceReader):
    """A batch read between offsets that are resolved when the query is planned."""

    def __init__(self, options: TopicOptions, schema: StructType) -> None:
        self.options = options
        self.schema = arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        from ariane.spark.cluster import Cluster
        from ariane.spark.topic.plan import end_offsets, queues_of, start_offsets, tasks

        with Cluster(self.options.access) as cluster:
            bounds = cluster.bounds(queues_of(cluster, self.options))
            start = start_offsets(cluster, self.options, bounds)
            end = end_offsets(cluster, self.options, bounds)
            return [SlicePartition(parts) for parts in tasks(cluster, start, end, self.options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema)
