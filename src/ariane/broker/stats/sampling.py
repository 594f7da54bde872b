"""Sampling: once a second the counts of the hot path become statistics."""

from __future__ import annotations

from datetime import datetime

from ariane.broker.config.live import LiveOptions
from ariane.broker.periodic import Periodic
from ariane.broker.read_cycle import ReadCycle
from ariane.broker.stats.counting import BrokerStats
from ariane.broker.stats.store import StoreStats
from ariane.broker.tables.groups import GroupTable
from ariane.env import Clock
from ariane.store import MessageStore

EVERY = 1.0  # seconds


class Sampling:
    """Reads the counters of store and read cycle, so that the hot path has no further cost."""

    def __init__(
        self, store: MessageStore, cycle: ReadCycle, totals: StoreStats, stats: BrokerStats, clock: Clock
    ) -> None:
        self._store = store
        self._cycle = cycle
        self._totals = totals
        self._stats = stats
        self._clock = clock
        self._day = datetime.fromtimestamp(clock.now_ms() / 1000).day

    def sample(self) -> None:
        """Sample everything now; at midnight the totals of the day turn over."""
        counted, totals, now = self._store.stats, self._totals, self._clock.now_ms()
        totals.put_count, totals.put_bytes = counted.put_count, counted.put_bytes
        totals.put_failed, totals.found = counted.put_failed, counted.get_found
        totals.missed, totals.transferred = counted.get_missed, counted.transferred
        self._cycle.report()
        totals.tick(now)
        self._stats.tick(now)
        if (today := datetime.fromtimestamp(now / 1000).day) != self._day:
            self._day = today
            totals.morning()

    def periodic(self) -> Periodic:
        """The sampling as work that repeats."""
        return Periodic(self._clock, EVERY, self.sample, name="sample statistics")


class SlowReaders:
    """Disables groups that lag so far that their reads from the disk slow all others down."""

    def __init__(self, stats: BrokerStats, groups: GroupTable, options: LiveOptions) -> None:
        self._stats = stats
        self._groups = groups
        self._options = options

    def disable(self) -> None:
        """Disable the groups beyond `consumerFallbehindThreshold`, where the options ask for it."""
        options = self._options.current
        if options.disable_consume_if_consumer_read_slowly:
            for key, lag in self._stats.behind().items():
                if lag > options.consumer_fallbehind_threshold:
                    self._groups.disable(key.rpartition("@")[2])
