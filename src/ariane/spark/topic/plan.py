"""Plan a read: the offset range of each queue, and its slices."""

from collections.abc import Iterable
from typing import Final

from ariane.errors import ConfigError
from ariane.message import MessageQueue
from ariane.spark.cluster import Bounds, Cluster
from ariane.spark.offsets import EARLIEST, LATEST, Offsets, split
from ariane.spark.topic.options import Point, TopicOptions
from ariane.spark.topic.pull_range import QueueSlice, lost, name_of

WORTH_A_TASK: Final = 4096  # messages: reading so many takes as long as starting a task


def queues_of(cluster: Cluster, options: TopicOptions, *, required: bool = True) -> list[MessageQueue]:
    """The queues to read by current routes. With `required`, a named topic must exist."""
    if options.pattern is None:
        return cluster.queues(options.topics, required=required)
    return cluster.queues([topic for topic in cluster.topics() if options.wants(topic)], required=False)


def start_offsets(cluster: Cluster, options: TopicOptions, bounds: dict[MessageQueue, Bounds]) -> Offsets:
    """The start offsets. By time they are a little early: tasks drop older messages."""
    if options.start_ms is not None:
        found = cluster.search(bounds, options.start_ms - 1)
        return {queue: _within(offset, bounds[queue]) for queue, offset in found.items()}
    _check_names("startingOffsets", options.start, bounds)
    return {
        queue: _checked(queue, _pick(options.start, queue, edge, EARLIEST), edge, options.fail)
        for queue, edge in bounds.items()
    }


def end_offsets(cluster: Cluster, options: TopicOptions, bounds: dict[MessageQueue, Bounds]) -> Offsets:
    """The end offsets. By time they are a little late: tasks drop messages stored at that time or later."""
    if options.end_ms is not None:
        found = cluster.search(bounds, options.end_ms)
        return {queue: _within(offset + 1, bounds[queue]) for queue, offset in found.items()}
    _check_names("endingOffsets", options.end, bounds)
    return {
        queue: _checked(queue, _pick(options.end, queue, edge, LATEST), edge, options.fail)
        for queue, edge in bounds.items()
    }


def _check_names(option: str, point: Point, bounds: dict[MessageQueue, Bounds]) -> None:
    strangers = sorted(point.keys() - bounds.keys()) if isinstance(point, dict) else []
    if strangers:
        raise ConfigError(f"option {option}: not among what is read: {'; '.join(map(name_of, strangers))}")


def _pick(point: Point, queue: MessageQueue, edge: Bounds, default: int) -> int:
    offset = point.get(queue, default) if isinstance(point, dict) else point
    return {EARLIEST: edge.first, LATEST: edge.end}.get(offset, offset)


def _checked(queue: MessageQueue, offset: int, edge: Bounds, fail: bool) -> int:
    if fail and not edge.first <= offset <= edge.end:
        raise lost(queue, offset, edge.first, edge.end)
    return _within(offset, edge)


def _within(offset: int, edge: Bounds) -> int:
    return max(edge.first, min(offset, edge.end))


def tasks(cluster: Cluster, start: Offsets, end: Offsets, min_partitions: int) -> list[list[QueueSlice]]:
    """Split the ranges into tasks: a queue, several small ones, or a part of one if more tasks are wanted."""
    ranges = {queue: (start.get(queue, 0), stop) for queue, stop in sorted(end.items()) if stop > start.get(queue, 0)}
    slices = [
        QueueSlice(queue, first, last, cluster.addresses(queue.broker_name))
        for queue, pieces in _pieces(ranges, min_partitions)
        for first, last in pieces
    ]
    return _together(slices) if min_partitions == 1 else [[part] for part in slices]


def _together(slices: list[QueueSlice]) -> list[list[QueueSlice]]:
    """Group consecutive slices until they are worth a task."""
    groups: list[list[QueueSlice]] = []
    count = WORTH_A_TASK
    for part in slices:
        if count >= WORTH_A_TASK:
            groups.append([])
            count = 0
        groups[-1].append(part)
        count += part.stop - part.start
    return groups


def _pieces(
    ranges: dict[MessageQueue, tuple[int, int]], wanted: int
) -> Iterable[tuple[MessageQueue, list[tuple[int, int]]]]:
    total = sum(stop - start for start, stop in ranges.values())
    for queue, (start, stop) in ranges.items():
        share = -(-(stop - start) * wanted // total) if len(ranges) < wanted else 1
        yield queue, split(start, stop, share)
