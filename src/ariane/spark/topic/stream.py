"""A topic as a stream. The checkpoint decides what was read; offsets committed at brokers are informative."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ariane.errors import ArianeError, NameServersUnreachable, RemotingError
from ariane.message import MessageQueue
from ariane.spark.arrow.schema import arrow_schema
from ariane.spark.cluster import Cluster
from ariane.spark.offsets import Offsets, from_json, limited, to_json
from ariane.spark.topic.batch import SlicePartition, read_partition
from ariane.spark.topic.options import TopicOptions
from ariane.spark.topic.plan import queues_of, start_offsets, tasks
from ariane.spark.topic.pull_range import lost

log = logging.getLogger("ariane.spark")

_IDLE_PAUSE: Final = 0.05  # Spark polls without a pause


class TopicStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming read. Connects on first use, because copies of this object are pickled."""

    def __init__(self, options: TopicOptions, schema: StructType) -> None:
        self.options = options
        self.schema = arrow_schema(schema)
        self._cluster: Cluster | None = None
        self._queues: list[MessageQueue] = []
        self._asked_at = 0.0
        self._first: Offsets | None = None
        self._target: Offsets | None = None  # of Trigger.AvailableNow
        self._latest: Offsets = {}
        self._committed: Offsets = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "schema": self.schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self.options.access)
        return self._cluster

    def initialOffset(self) -> dict[str, Any]:
        if self._first is None:  # Spark asks twice, and "latest" must be the same both times
            bounds = self.cluster.bounds(self._known_queues())
            self._first = start_offsets(self.cluster, self.options, bounds)
        return to_json(self._first)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit: ReadLimit = ReadAllAvailable()
        return limit if self.options.max_offsets is None else ReadMaxRows(self.options.max_offsets)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.cluster.ends(self._known_queues())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = from_json(start)
        self._tell(begin)
        end = self._reachable(begin)
        if end == begin:
            self.cluster.pause(_IDLE_PAUSE)
            end = self._reachable(begin)
        if isinstance(limit, ReadMaxRows):
            end = limited(self._grounded(begin, end), end, limit.max_rows)
        return to_json(end)

    def _reachable(self, begin: Offsets) -> Offsets:
        """The current end offsets: never lower than before, unless a master itself has less."""
        if self._target is None:
            self._latest = self.cluster.ends(self._known_queues())
        else:
            self._latest = self._target
        end = {queue: max(self._latest.get(queue, 0), begin.get(queue, 0)) for queue in begin.keys() | self._latest}
        return end | self._shrunk(begin, self._latest)

    def _shrunk(self, wanted: Offsets, found: Offsets) -> Offsets:
        """The ends of queues that are shorter than before: created again, or truncated. An error, or reading goes on
        at the new end, because what was read below it is unknown.

        A slave may only lag, so the master decides.
        """
        short = [queue for queue, end in found.items() if end < wanted.get(queue, 0)]
        masters = self.cluster.master_bounds(short) if short else {}
        ends: Offsets = {}
        for queue, edge in masters.items():
            if edge.end < wanted[queue]:
                if self.options.fail:
                    raise lost(queue, wanted[queue], edge.first, edge.end)
                log.warning("%s: ends at %d now, before %d where it ended", queue, edge.end, wanted[queue])
                ends[queue] = edge.end
        return ends

    def _grounded(self, begin: Offsets, end: Offsets) -> Offsets:
        """The start offsets of queues that were added while the query runs."""
        new = [queue for queue in end if queue not in begin]
        return (
            begin | {queue: edge.first for queue, edge in self.cluster.bounds(new, required=False).items()}
            if new
            else begin
        )

    def _known_queues(self) -> list[MessageQueue]:
        now = self.cluster.monotonic()
        if not self._queues or now - self._asked_at >= self.options.route_refresh:
            self._queues = sorted({*self._queues, *self._found_queues()})  # an unreachable one stays known
            self._asked_at = now
        return self._queues

    def _found_queues(self) -> list[MessageQueue]:
        """Fail without queues at the start; later wait while brokers and name servers are unreachable."""
        if not self._queues:
            return queues_of(self.cluster, self.options)
        try:
            return queues_of(self.cluster, self.options, required=False)
        except (RemotingError, NameServersUnreachable) as error:
            log.warning("no look for new queues now: %s", error)
            return []

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self._latest) or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, stop = from_json(start), from_json(end)
        self._known_queues()  # routes to the brokers, after a restart
        bounds = self.cluster.bounds([q for q in stop if stop[q] > begin.get(q, 0)], required=False)
        for queue, edge in bounds.items():
            if begin.get(queue, edge.first) < edge.first:
                if self.options.fail:
                    raise lost(queue, begin[queue], edge.first, edge.end)
                log.warning("%s: offsets %d to %d expired before they were read", queue, begin[queue], edge.first)
            begin[queue] = max(begin.get(queue, edge.first), edge.first)
        stop |= self._shrunk(stop, {queue: edge.end for queue, edge in bounds.items()})  # since the batch was planned
        return [SlicePartition(parts) for parts in tasks(self.cluster, begin, stop, self.options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema)

    def commit(self, end: dict[str, Any]) -> None:
        self._tell(from_json(end))

    def _tell(self, offsets: Offsets) -> None:
        """Commit offsets for monitoring; nothing depends on them."""
        news = {queue: offset for queue, offset in offsets.items() if self._committed.get(queue) != offset}
        if not self.options.commit_offsets or not news:
            return
        try:
            self.cluster.commit(self.options.group, news)
            self._committed.update(news)
        except ArianeError as error:
            log.warning("offsets of group %s were not committed: %s", self.options.group, error)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
