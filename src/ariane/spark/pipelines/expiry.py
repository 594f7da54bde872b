"""The time until brokers delete messages that an archive does not have."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ariane import Admin
from ariane.errors import ArianeError, ConfigError
from ariane.message import MessageQueue
from ariane.spark.access import Access
from ariane.spark.arrow.scan import hop
from ariane.spark.arrow.unit_table import UnitTable
from ariane.spark.cluster import Bounds, Cluster
from ariane.spark.offsets import from_json
from ariane.spark.pipelines.origin import Topics
from ariane.spark.topic.options import TopicOptions
from ariane.spark.topic.plan import queues_of
from ariane.spark.topic.pull_range import QueueSlice, SlicePuller

HOUR_MS = 3_600_000
DEFAULT_HOURS = 72.0  # default of fileReservedTime


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


class Retention:
    """How many hours brokers keep messages: as the user says, or as each broker says itself."""

    def __init__(self, access: Access, cluster: Cluster, hours: float | None) -> None:
        self._access = access
        self._cluster = cluster
        self._hours = hours
        self._told: dict[str, float] = {}
        self.silent: dict[str, str] = {}  # brokers that did not say, with the reason

    def of(self, broker_name: str) -> float:
        if self._hours is not None:
            return self._hours
        if broker_name not in self._told:
            self._told[broker_name] = self._ask(broker_name)
        return self._told[broker_name]

    def _ask(self, broker_name: str) -> float:
        try:
            with Admin(options=self._access.client_options()) as admin:
                said = admin.broker_config(self._cluster.addresses(broker_name)[0])
            return _reserved_time(said)
        except ArianeError as error:  # one that is away, or lets only operators ask
            self.silent[broker_name] = str(error)
            return DEFAULT_HOURS


def _reserved_time(config: str) -> float:
    lines = (line.partition("=") for line in config.splitlines())
    for name, _, value in lines:
        if name.strip() == "fileReservedTime":
            return float(value)
    raise ConfigError("its configuration has no fileReservedTime")


@dataclass(frozen=True)
class Lateness:
    """The messages that an archive lacks."""

    queues: list[Behind]  # most urgent first
    silent: dict[str, str]  # brokers that did not say how long they keep messages: RocketMQ's default is taken


def behind(origin: Topics, archived: dict[str, Any], retention_hours: float | None = None) -> Lateness:
    """Every queue of the topics with messages that the archive does not have."""
    have = from_json(archived)
    options = TopicOptions.parse(origin.settings(), streaming=True)
    with Cluster(options.access) as cluster:
        retention = Retention(options.access, cluster, retention_hours)
        queues = queues_of(cluster, options)
        if not queues:
            raise ConfigError(f"no topic is called {origin.pattern or origin.topic}: there is nothing to look at")
        bounds = cluster.bounds(queues)
        found = [
            _behind(cluster, options.access, queue, edge, have.get(queue, 0), retention.of(queue.broker_name))
            for queue, edge in bounds.items()
            if edge.end > have.get(queue, 0)
        ]
    return Lateness(sorted(found, key=lambda one: one.hours_left), retention.silent)


def _behind(
    cluster: Cluster, access: Access, queue: MessageQueue, edge: Bounds, have: int, retention_hours: float
) -> Behind:
    if have < edge.first:
        return Behind(queue, edge.end - have, edge.first - have, -np.inf)
    stored = store_time(cluster, access, queue, have)
    age = 0 if stored is None else (cluster.now_ms() - stored) / HOUR_MS
    return Behind(queue, edge.end - have, 0, retention_hours - age)
