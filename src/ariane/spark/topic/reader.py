"""Slices of queues to record batches: what one Spark task reads of a topic."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ariane.errors import StoreError
from ariane.message import TAGS
from ariane.spark.arrow.arrays import Mask, to_numpy
from ariane.spark.arrow.columns import Batch, to_batch
from ariane.spark.arrow.scan import End, hop
from ariane.spark.arrow.unit_table import UnitTable
from ariane.spark.topic.options import TopicOptions, tags_of
from ariane.spark.topic.pull_range import QueueSlice, SlicePuller

BATCH_BYTES: Final = 1 << 20  # larger answers are not merged


def read_slice(part: QueueSlice, options: TopicOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The record batches of a slice."""
    gapless = Gapless(part, fail=options.fail and not options.filters)
    for units in _joined(SlicePuller(part, options, _refresher(part, options)).bodies()):
        table = gapless.take(_table(units, part))
        table = _choose(table, options)
        if len(table):
            yield to_batch(Batch(table, part.queue.broker_name, fail=options.fail), schema)
    gapless.finish()


def _refresher(part: QueueSlice, options: TopicOptions) -> Callable[[], tuple[str, ...]]:
    def refresh() -> tuple[str, ...]:
        from ariane.spark.cluster import Cluster  # imports asyncio: not for every task

        with Cluster(options.access) as cluster:
            cluster.queues([part.queue.topic], required=False)
            return cluster.addresses(part.queue.broker_name)

    return refresh


def _joined(bodies: Iterator[memoryview]) -> Iterator[bytes | memoryview]:
    """Merge small answers: columns pay off over thousands of messages."""
    parts: list[memoryview] = []
    size = 0
    for body in bodies:
        parts.append(body)
        size += len(body)
        if size >= BATCH_BYTES:
            yield _one(parts)
            parts, size = [], 0
    if parts:
        yield _one(parts)


def _one(parts: list[memoryview]) -> bytes | memoryview:
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _table(units: bytes | memoryview, part: QueueSlice) -> UnitTable:
    view = memoryview(units)
    found = hop(view, 0, len(view))
    table = UnitTable(view, found.starts)
    if found.why is not End.ENOUGH or table.well_formed() < len(table):
        raise StoreError(f"{part.queue}: the broker's answer holds something that is no message")
    return table


class Gapless:
    """Drops repeated messages of a slice; with `fail`, a missing message is an error."""

    def __init__(self, part: QueueSlice, *, fail: bool) -> None:
        self._part = part
        self._next = part.start
        self._fail = fail

    def take(self, table: UnitTable) -> UnitTable:
        """The messages of the slice that were not seen before."""
        offsets = table.queue_offsets
        before = np.maximum.accumulate(np.concatenate(([self._next - 1], offsets)))[:-1]
        fresh = (offsets > before) & (offsets < self._part.stop)
        table = table.select(fresh)
        if len(table):
            self._check(np.concatenate(([self._next - 1], table.queue_offsets)))
            self._next = int(table.queue_offsets[-1]) + 1
        return table

    def finish(self) -> None:
        """Check that the slice is complete."""
        self._check(np.array([self._next - 1, self._part.stop]))

    def _check(self, offsets: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> None:
        gaps = np.flatnonzero(np.diff(offsets) != 1)
        if self._fail and len(gaps):
            first, last = int(offsets[gaps[0]]) + 1, int(offsets[gaps[0] + 1]) - 1
            raise StoreError(
                f"{self._part.queue}: the broker has no messages at offsets {first} to {last} any more; "
                "failOnDataLoss=false goes on without them"
            )


def _choose(table: UnitTable, options: TopicOptions) -> UnitTable:
    """Apply the filters that brokers apply loosely: tags by hash only, times by nearest message."""
    if options.start_ms is not None:
        table = table.select(table.store_times >= options.start_ms)
    if options.end_ms is not None:
        table = table.select(table.store_times < options.end_ms)
    if tags := tags_of(options.expression):
        table = table.select(_has_tag(table, tags))
    return table


def _has_tag(table: UnitTable, tags: frozenset[str]) -> Mask:
    column = Batch(table).properties.column(TAGS)
    wanted = pa.array([tag.encode() for tag in tags], type=pa.binary())
    return to_numpy(pc.is_in(column, value_set=wanted))
