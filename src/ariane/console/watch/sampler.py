"""Takes a sample of each cluster now and then: for the history and the alarms."""

import asyncio
import logging
import sqlite3
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ariane.client.admin.brokers import BrokerStatus
from ariane.console.cluster import Cluster, GroupRow
from ariane.console.watch.alarms import AlarmRules, Alarms, Notice
from ariane.console.watch.history import History
from ariane.console.watch.notices import Notifier
from ariane.env import Clock
from ariane.errors import ArianeError, BrokerRefused, RouteMissing
from ariane.message import DLQ_PREFIX

LETTERS_MOST: Final = 100  # dead-letter topics asked in a sample; more are asked in turn
CONFLICTS_MOST: Final = 20  # the same for the clients of groups
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
KEPT: Final = 1000  # counts of letters by group
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """A cluster at one moment; `error` says why there is nothing else."""

    cluster: str
    time: int
    brokers: list[BrokerStatus] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)
    """Messages stored in a second by topic, of topics that a group consumes."""
    letters: dict[str, int] = field(default_factory=dict)
    conflicts: dict[str, bool] = field(default_factory=dict)
    """Whether the clients of a group differ; of the groups that were looked at."""
    error: str | None = None

    def values(self) -> dict[tuple[str, str], float]:
        """What the history keeps. Groups without lag get no row, so that many idle groups cost nothing."""
        found: dict[tuple[str, str], float] = {}
        for one in self.brokers:
            if one.error is None:
                found["in", broker_key(one)], found["out", broker_key(one)] = one.in_tps, one.out_tps
                found["disk", broker_key(one)] = disk_ratio(one)
        for group in self.groups:
            if group.lag > 0:
                found["lag", group.name] = group.lag
                if group.oldest:
                    found["behind", group.name] = max(0, self.time - group.oldest) / 1000
        for topic, rate in self.rates.items():
            if rate > 0:
                found["stored", topic] = rate
        for name, count in self.letters.items():
            if count > 0:
                found["letters", name] = count
        found["lag", ""] = sum(group.lag for group in self.groups)
        return found


def broker_key(one: BrokerStatus) -> str:
    """How the history calls a broker."""
    return f"{one.name} {one.address}"


def disk_ratio(one: BrokerStatus) -> float:
    """How full the disk of a broker is, from 0 to 1."""
    try:
        return min(1.0, max(0.0, float(one.stats.get("commitLogDiskRatio") or 0)))
    except ValueError:
        return 0.0


class Sampler:
    """Samples clusters, each by its own task, so that one that does not answer delays no other."""

    def __init__(
        self,
        clusters: list[Cluster],
        history: History,
        alarms: Alarms,
        notifier: Notifier,
        clock: Clock,
        seconds: float,
    ) -> None:
        self._clusters = clusters
        self._history = history
        self._alarms = alarms
        self._notifier = notifier
        self._clock = clock
        self._seconds = seconds
        self._tasks: list[asyncio.Task[None]] = []
        self._ends: dict[str, tuple[int, dict[str, int]]] = {}
        self._turns: dict[str, int] = {}
        self._topics: dict[str, set[str]] = {}
        self._letters: dict[tuple[str, str], deque[tuple[int, int]]] = {}
        self._conflicts: dict[str, dict[str, bool]] = {}
        self._seen: dict[str, set[str]] = {}

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
                    await self._keep(sample)
                self._notifier.tell(self.judge(sample))
            except Exception:
                log.exception("the sample of %s failed", cluster.name)
            await self._clock.sleep(self._seconds)

    async def _keep(self, sample: Sample) -> None:
        """Write a sample to the history; without room for it, there are alarms all the same."""
        try:
            await asyncio.to_thread(self._history.add, sample.cluster, sample.time, sample.values())
        except sqlite3.Error as error:
            log.error("a sample of %s cannot be kept: %s", sample.cluster, error)

    async def take(self, cluster: Cluster) -> Sample:
        """One sample."""
        now, rules = self._clock.now_ms(), self._alarms.rules.current
        try:
            brokers, groups = await asyncio.gather(cluster.brokers(), cluster.groups())
            rates = self._rates(cluster.name, now, await cluster.ends())
            letters = await self._count_letters(cluster) if rules.letters else {}
            conflicts = await self._find_conflicts(cluster, groups) if rules.conflicts else {}
            return Sample(cluster.name, now, brokers, groups, rates, letters, conflicts)
        except (ArianeError, OSError) as error:
            return Sample(cluster.name, now, error=str(error))

    def _rates(self, cluster: str, now: int, ends: dict[str, int]) -> dict[str, float]:
        before, earlier = self._ends.get(cluster, (now, {}))
        self._ends[cluster] = now, ends
        seconds = (now - before) / 1000
        if seconds <= 0:
            return {}
        return {topic: max(0, end - earlier[topic]) / seconds for topic, end in ends.items() if topic in earlier}

    def _in_turn(self, what: str, names: list[str], most: int) -> list[str]:
        """Some of the names, others at the next call."""
        if len(names) <= most:
            return names
        first = self._turns.get(what, 0) % len(names)
        self._turns[what] = first + most
        return [*names[first : first + most], *names[: max(0, first + most - len(names))]]

    async def _count_letters(self, cluster: Cluster) -> dict[str, int]:
        topics = [one.name for one in await cluster.topics() if one.kind == "dead-letter"]
        before = self._topics.get(cluster.name)
        if before is not None:  # the topic is created by its first letter: count that one, too
            for topic in set(topics) - before:
                key = cluster.name, topic.removeprefix(DLQ_PREFIX)
                self._letters.setdefault(key, deque(maxlen=KEPT)).append((self._clock.now_ms(), 0))
        self._topics[cluster.name] = set(topics)
        found: dict[str, int] = {}
        for topic in self._in_turn(f"letters {cluster.name}", topics, LETTERS_MOST):
            try:
                table = (await cluster.admin.topic_stats(topic)).offset_table
            except (BrokerRefused, RouteMissing):
                continue
            found[topic.removeprefix(DLQ_PREFIX)] = sum(one.max_offset for one in table.values())
        return found

    async def _find_conflicts(self, cluster: Cluster, groups: list[GroupRow]) -> dict[str, bool]:
        names = [one.name for one in groups if one.topics]
        found: dict[str, bool] = {}
        for name in self._in_turn(f"conflicts {cluster.name}", names, CONFLICTS_MOST):
            try:
                online = (await cluster.clients_of([name]))[name]
                found[name] = online > 1 and (await cluster.group(name)).in_conflict
            except (BrokerRefused, RouteMissing):
                continue
        return found

    def judge(self, sample: Sample) -> list[Notice]:
        """Compare a sample with the rules; returns what is to be told."""
        rules, cluster = self._alarms.rules.current, sample.cluster
        if sample.error is not None:
            return self._alarms.look(cluster, {("unreachable", ""): 1}, frozenset({"unreachable"}))
        found = self._thresholds(sample, rules)
        if rules.missing:
            answering = {broker_key(one) for one in sample.brokers if one.error is None}
            silent = {broker_key(one) for one in sample.brokers if one.error is not None}
            known = self._known_brokers(cluster, sample.time)
            found |= {("missing", name): 1 for name in (known | silent) - answering}
        known_conflicts = self._conflicts.setdefault(cluster, {})
        known_conflicts.update(sample.conflicts)
        names = {one.name for one in sample.groups}
        self._conflicts[cluster] = {name: bad for name, bad in known_conflicts.items() if name in names}
        if rules.conflicts:
            found |= {("conflict", name): 1 for name, bad in self._conflicts[cluster].items() if bad}
        kinds = frozenset({"lag", "letters", "disk", "missing", "conflict", "unreachable"})
        return self._alarms.look(cluster, found, kinds)

    def _known_brokers(self, cluster: str, now: int) -> set[str]:
        """The brokers that answered within a day."""
        try:
            self._seen[cluster] = set(self._history.names(cluster, "disk", now - DAY))
        except sqlite3.Error as error:
            log.error("the history cannot be read: %s", error)
        return self._seen.get(cluster, set())

    def _earlier_letters(self, cluster: str, group: str, now: int) -> float | None:
        """How many letters a group had an hour ago."""
        try:
            return self._history.at(cluster, "letters", group, now - HOUR)
        except sqlite3.Error:
            return None

    def _thresholds(self, sample: Sample, rules: AlarmRules) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        if rules.lag:
            found |= {("lag", one.name): one.lag for one in sample.groups if one.lag >= rules.lag}
        if rules.disk_percent:
            for broker in sample.brokers:
                if broker.error is None and disk_ratio(broker) * 100 >= rules.disk_percent:
                    found["disk", broker_key(broker)] = disk_ratio(broker)
        for group, count in sample.letters.items():
            counts = self._letters.setdefault((sample.cluster, group), deque(maxlen=KEPT))
            if not counts:  # after a restart
                earlier = self._earlier_letters(sample.cluster, group, sample.time)
                counts.append((sample.time, count if earlier is None else int(earlier)))
            counts.append((sample.time, count))
        for (cluster, group), counts in list(self._letters.items()):
            if cluster != sample.cluster:
                continue
            while counts and counts[0][0] < sample.time - HOUR:
                counts.popleft()
            if not counts:
                del self._letters[cluster, group]
            elif rules.letters and counts[-1][1] - counts[0][1] >= rules.letters:
                found["letters", group] = counts[-1][1] - counts[0][1]
        return found
