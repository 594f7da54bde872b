"""Takes a sample of each cluster now and then: for the history."""

import asyncio
import logging
from dataclasses import dataclass, field

from ariane.client.admin.brokers import BrokerStatus
from ariane.console.cluster import Cluster, GroupRow
from ariane.console.history import History
from ariane.env import Clock
from ariane.errors import ArianeError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """A cluster at one moment; `error` says why there is nothing else."""

    cluster: str
    time: int
    brokers: list[BrokerStatus] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    error: str | None = None

    def values(self) -> dict[tuple[str, str], float]:
        """What the history keeps. Groups without lag get no row, so that many idle groups cost nothing."""
        found: dict[tuple[str, str], float] = {}
        for one in self.brokers:
            if one.error is None:
                name = f"{one.name} {one.address}"
                found["in", name], found["out", name] = one.in_tps, one.out_tps
                found["disk", name] = disk_ratio(one)
        for group in self.groups:
            if group.lag > 0:
                found["lag", group.name] = group.lag
        found["lag", ""] = sum(group.lag for group in self.groups)
        return found


def disk_ratio(one: BrokerStatus) -> float:
    """How full the disk of a broker is, from 0 to 1."""
    try:
        return float(one.stats.get("commitLogDiskRatio") or 0)
    except ValueError:
        return 0.0


class Sampler:
    """Samples clusters, each by its own task, so that one that does not answer delays no other."""

    def __init__(
        self,
        clusters: list[Cluster],
        history: History,
        clock: Clock,
        seconds: float,
    ) -> None:
        self._clusters = clusters
        self._history = history
        self._clock = clock
        self._seconds = seconds
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to sample."""
        self._tasks = [asyncio.ensure_future(self._run(cluster)) for cluster in self._clusters]

    async def stop(self) -> None:
        """Stop sampling."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, cluster: Cluster) -> None:
        while True:
            try:
                sample = await self.take(cluster)
                if sample.error is None:
                    self._history.add(cluster.name, sample.time, sample.values())
            except Exception:
                log.exception("the sample of %s failed", cluster.name)
            await self._clock.sleep(self._seconds)

    async def take(self, cluster: Cluster) -> Sample:
        """One sample."""
        now = self._clock.now_ms()
        try:
            brokers, groups = await asyncio.gather(cluster.brokers(), cluster.groups())
            return Sample(cluster.name, now, brokers, groups)
        except ArianeError as error:
            return Sample(cluster.name, now, error=str(error))
