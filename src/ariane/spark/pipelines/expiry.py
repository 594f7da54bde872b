"""How long until a broker deletes what an archive does not have yet."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ariane.message import MessageQueue
from ariane.spark.access import Access
from ariane.spark.cluster import Bounds, Cluster
from ariane.spark.offsets import from_json
from ariane.spark.pulling import QueueSlice, SlicePuller
from ariane.spark.scan import hop
from ariane.spark.topic_options import TopicOptions
from ariane.spark.unit_table import UnitTable

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Behind:
    """A queue with messages that are not archived."""

    queue: MessageQueue
    missing: int
    lost: int  # of those, deleted by the broker already
    hours_left: float  # until the oldest one goes


def store_time(cluster: Cluster, access: Access, queue: MessageQueue, offset: int) -> int | None:
    """When the message at an offset was stored; None when it is not there."""
    part = QueueSlice(queue, offset, offset + 1, cluster.addresses(queue.broker_name))
    options = TopicOptions.reading(access, 10.0, queue.topic)
    for body in SlicePuller(part, options, lambda: cluster.addresses(queue.broker_name)).bodies():
        view = memoryview(body)
        return int(UnitTable(view, hop(view, 0, len(view)).starts[:1]).store_times[0])
    return None


def behind(access: Access, topics: list[str], archived: dict[str, Any], retention_hours: float) -> list[Behind]:
    """Every queue of the topics with messages that the archive does not have, the most urgent first."""
    have = from_json(archived)
    with Cluster(access) as cluster:
        bounds = cluster.bounds(cluster.queues(topics))
        found = [
            _behind(cluster, access, queue, edge, have.get(queue, 0), retention_hours)
            for queue, edge in bounds.items()
            if edge.end > have.get(queue, 0)
        ]
    return sorted(found, key=lambda one: one.hours_left)


def _behind(
    cluster: Cluster, access: Access, queue: MessageQueue, edge: Bounds, have: int, retention_hours: float
) -> Behind:
    if have < edge.first:
        return Behind(queue, edge.end - have, edge.first - have, -np.inf)
    stored = store_time(cluster, access, queue, have)
    age = 0 if stored is None else (cluster.now_ms() - stored) / HOUR_MS
    return Behind(queue, edge.end - have, 0, retention_hours - age)
