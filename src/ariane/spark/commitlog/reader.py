"""Store folders to record batches.

A partition is a byte range of a log file, or a range of a queue when `through=consumequeue`.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ariane.errors import StoreError
from ariane.spark.arrow.arrays import Mask, to_numpy
from ariane.spark.arrow.columns import Batch, to_batch
from ariane.spark.arrow.schema import arrow_schema
from ariane.spark.arrow.unit_table import UnitTable
from ariane.spark.commitlog.log_files import LogFile, commitlog_folder, log_files
from ariane.spark.commitlog.log_reader import LogRange, about_used, plan_ranges, read_range, written_files
from ariane.spark.commitlog.options import MIN_SPLIT, CommitlogOptions
from ariane.spark.commitlog.pruning import prune_by_time, prune_by_topic
from ariane.spark.commitlog.queue_files import QueueRange, queues_of, read_queue, topics_of
from ariane.spark.worker import spare_collector


class LogPartition(InputPartition):
    """A byte range of one log file."""

    def __init__(self, part: LogRange) -> None:
        self.part = part


class QueuePartition(InputPartition):
    """A range of one queue, and the log files its messages may lie in."""

    def __init__(self, part: QueueRange, logs: list[LogFile]) -> None:
        self.part = part
        self.logs = logs


class CommitlogReader(DataSourceReader):
    """Plans on the driver, reads in tasks. Holds only options, so it is cheap to pickle."""

    def __init__(self, options: CommitlogOptions, schema: StructType) -> None:
        self.options = options
        self.schema = arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        plan = self._queue_partitions if self.options.by_queue else self._log_partitions
        found: list[InputPartition] = []
        for store in self.options.stores:
            found += plan(store)
        return found

    def _log_partitions(self, store: str) -> list[InputPartition]:
        written = written_files(log_files(commitlog_folder(store)))
        if not written:
            return []
        files = prune_by_time(written, self.options.start_ms, self.options.end_ms)
        if self.options.by_topic and len(files) > 1:
            files = prune_by_topic(store, files, [t for t in topics_of(store) if self.options.wants(t)])
        split = self._split(sum(about_used(file) if file == written[-1] else file.size for file in files))
        return [LogPartition(part) for part in plan_ranges(files, written[-1], split)]

    def _split(self, size: int) -> int:
        return max(min(self.options.split, -(-size // self.options.min_partitions)), MIN_SPLIT)

    def _queue_partitions(self, store: str) -> list[InputPartition]:
        topics = topics_of(store)
        if not topics:
            raise StoreError(f"{store}: through=consumequeue, but there is no consumequeue folder")
        logs = log_files(commitlog_folder(store))
        wanted = [t for t in topics if not self.options.by_topic or self.options.wants(t)]
        queues = [
            queue for topic in wanted for queue in queues_of(store, topic, logs[0].base) if queue.stop > queue.start
        ]
        return [QueuePartition(queue, logs) for queue in queues]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema)


def read_partition(partition: InputPartition, options: CommitlogOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The record batches of one partition; shared by the batch and the streaming reader."""
    spare_collector()
    for table in _tables(partition, options.fail):
        chosen = _choose(table, options)
        if len(chosen):
            yield to_batch(Batch(chosen, options.broker_name, fail=options.fail), schema)


def _tables(partition: InputPartition, fail: bool) -> Iterator[UnitTable]:
    if isinstance(partition, LogPartition):
        return read_range(partition.part, fail=fail)
    if isinstance(partition, QueuePartition):
        return read_queue(partition.part, partition.logs, fail=fail)
    return iter(())  # Spark passes None when there are no partitions


def _choose(table: UnitTable, options: CommitlogOptions) -> UnitTable:
    if options.by_topic:
        table = table.select(_of_topics(table, options))
    if options.start_ms is not None:
        table = table.select(table.store_times >= options.start_ms)
    if options.end_ms is not None:
        table = table.select(table.store_times < options.end_ms)
    return _checked(table, options.fail) if options.check_crc else table


def _of_topics(table: UnitTable, options: CommitlogOptions) -> Mask:
    encoded = table.topics.dictionary_encode()
    wanted = [options.wants(topic.decode(errors="replace")) for topic in encoded.dictionary.to_pylist()]
    mask: Mask = np.array([*wanted, False])[to_numpy(encoded.indices)]
    return mask


def _checked(table: UnitTable, fail: bool) -> UnitTable:
    intact = table.intact()
    if fail and not intact.all():
        at = int(table.physical_offsets[int(np.argmin(intact))])
        raise StoreError(
            f"the message at {at} of the log does not match its checksum; failOnDataLoss=false leaves it out"
        )
    return table.select(intact)
