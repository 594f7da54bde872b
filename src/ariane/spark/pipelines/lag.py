"""How far groups are behind: per queue, in messages and in time, now and over time."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ariane.errors import ConfigError, RemotingError
from ariane.message import RETRY_PREFIX, MessageQueue
from ariane.spark.access import Access
from ariane.spark.cluster import Bounds, Cluster
from ariane.spark.pipelines.expiry import store_time


@dataclass(frozen=True)
class Lag:
    """One group at one queue at one time. Times are milliseconds; those of the group are of its next message."""

    at: int
    group: str
    topic: str
    brokerName: str
    queueId: int
    committed: int
    end: int
    lag: int
    behindMs: int


LAG_SCHEMA = (
    "at bigint, group string, topic string, brokerName string, queueId int, committed bigint, end bigint, lag bigint, "
    "behindMs bigint"
)


def sample(cluster: Cluster, access: Access, groups: list[str], topics: list[str]) -> list[Lag]:
    """The lag of groups at all queues of topics for which they have an offset, and at their retry topics.

    ConfigError names a group that has no offset at all: a typo, or one that never consumed.
    """
    committed = cluster.all_committed()
    for group in groups:
        if group not in committed:
            raise ConfigError(f"no broker has an offset of group {group!r}: is its name right, has it consumed yet?")
    return [lag for group in groups for lag in _of_group(cluster, access, group, topics, committed[group])]


def _of_group(
    cluster: Cluster, access: Access, group: str, topics: list[str], committed: dict[MessageQueue, int]
) -> Iterator[Lag]:
    queues = cluster.queues([*topics, RETRY_PREFIX + group], required=False)
    for queue, edge in cluster.bounds([queue for queue in queues if queue in committed], required=False).items():
        yield _lag(cluster, access, group, queue, committed[queue], edge)


def _lag(cluster: Cluster, access: Access, group: str, queue: MessageQueue, committed: int, edge: Bounds) -> Lag:
    now = cluster.now_ms()
    waiting = max(edge.end - committed, 0)
    stored = _stored(cluster, access, queue, max(committed, edge.first)) if waiting else None
    return Lag(
        now, group, queue.topic, queue.broker_name, queue.queue_id, committed, edge.end, waiting,
        0 if stored is None else max(now - stored, 0),
    )  # fmt: skip


def _stored(cluster: Cluster, access: Access, queue: MessageQueue, offset: int) -> int | None:
    try:
        return store_time(cluster, access, queue, offset)
    except RemotingError:
        return None


def rows_of(samples: list[Lag]) -> list[dict[str, object]]:
    """Samples as rows for `spark.createDataFrame(rows, LAG_SCHEMA)`."""
    return [asdict(lag) for lag in samples]
