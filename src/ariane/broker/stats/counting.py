"""Messages and bytes in and out, by broker, topic, group and queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ariane.broker.stats.counter import DAY, HOUR, MINUTE, Counter, Samples
from ariane.broker.stats.names import GROUP_PART, SCHEDULE_GROUP, TOPIC_PART, StatsName, has_part
from ariane.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from ariane.store import PutCount

DETAILED: Final = frozenset(
    {StatsName.QUEUE_PUT_NUMS, StatsName.QUEUE_PUT_SIZE, StatsName.QUEUE_GET_NUMS, StatsName.QUEUE_GET_SIZE}
)


@dataclass(frozen=True, slots=True)
class StatsSnapshot:
    """All totals since the start: name, key, sum and number of additions."""

    totals: Mapping[str, Mapping[str, tuple[int, int]]]
    fall_behind_bytes: Mapping[str, int]
    fall_behind_ms: Mapping[str, int]


class GetCell:
    """Counts the messages delivered from one queue to a group, and how far the group lags."""

    __slots__ = ("behind", "count", "latency_ms", "size", "times")

    def __init__(self) -> None:
        self.count = 0
        self.times = 0
        self.size = 0
        self.latency_ms = 0
        self.behind = -1
        """Bytes between the last delivered message and the newest; -1 when not known."""

    def add(self, count: int, size: int, latency_ms: int) -> None:
        """Count the messages of one pull."""
        self.count += count
        self.times += 1
        self.size += size
        self.latency_ms += latency_ms


class BrokerStats:
    """Counts on the hot path for each queue; `tick` spreads those counts over the counters and samples them.

    >>> stats = BrokerStats("DefaultCluster")
    >>> stats.put("TopicA", 0, count=2, size=300)
    >>> stats.tick(10_000)
    >>> stats.view("TOPIC_PUT_NUMS", "TopicA").stats_minute.sum
    2
    """

    def __init__(self, cluster: str, *, detailed: bool = True) -> None:
        self._cluster = cluster
        self._detailed = detailed
        self._counters: dict[StatsName, dict[str, Counter]] = {
            name: {} for name in StatsName if detailed or name not in DETAILED
        }
        self._puts: dict[tuple[str, int], PutCount] = {}
        self._gets: dict[tuple[str, str, int], GetCell] = {}
        self._minute, self._hour, self._day = Samples(MINUTE), Samples(HOUR), Samples(DAY)
        self._due_ms = [0, 0, 0]
        self.fall_behind_bytes: dict[str, int] = {}
        self.fall_behind_ms: dict[str, int] = {}

    def put(self, topic: str, queue_id: int, count: int, size: int) -> None:
        """Count the messages stored by one request."""
        counted = self._puts.get((topic, queue_id))
        if counted is None:
            counted = self._puts[topic, queue_id] = PutCount()
        counted.add(count, size)

    def take_count(self, topic: str, queue_id: int, counted: PutCount) -> None:
        """Read the counts of a queue from this object from now on, until the topic is deleted."""
        before = self._puts.get((topic, queue_id))
        self._puts[topic, queue_id] = counted
        if before is not None and before is not counted:
            counted.count += before.count
            counted.times += before.times
            counted.size += before.size

    def got(self, group: str, topic: str, queue_id: int, count: int, size: int, latency_ms: int) -> None:
        """Count the messages delivered to a group by one pull."""
        self.get_cell(group, topic, queue_id).add(count, size, latency_ms)

    def get_cell(self, group: str, topic: str, queue_id: int) -> GetCell:
        """The cell that counts what is delivered from a queue to a group, until one of them is deleted."""
        cell = self._gets.get((group, topic, queue_id))
        if cell is None:
            cell = self._gets[group, topic, queue_id] = GetCell()
        return cell

    def sent_back(self, group: str, topic: str) -> None:
        """Count a message that a consumer sent back."""
        self._counter(StatsName.SNDBCK_PUT_NUMS, f"{topic}@{group}").add(1, 1)

    def got_from_disk(self, group: str, topic: str, count: int, size: int) -> None:
        """Count messages of a pull that were no longer in memory."""
        key = f"{topic}@{group}"
        self._counter(StatsName.GROUP_GET_FROM_DISK_NUMS, key).add(count, 1)
        self._counter(StatsName.GROUP_GET_FROM_DISK_SIZE, key).add(size, 1)
        self._counter(StatsName.BROKER_GET_FROM_DISK_NUMS, self._cluster).add(count, 0)
        self._counter(StatsName.BROKER_GET_FROM_DISK_SIZE, self._cluster).add(size, 0)

    def fell_behind(self, group: str, topic: str, queue_id: int, ms: int) -> None:
        """Record how much older than the newest message the messages of a pull are."""
        self.fall_behind_ms[f"{queue_id}@{topic}@{group}"] = ms

    def behind(self) -> Mapping[str, int]:
        """The lag of each group in bytes, by `queue@topic@group`."""
        self._spread()
        return self.fall_behind_bytes

    def commercial(self, name: StatsName, owner: str, topic: str, group: str, kind: str, value: int) -> None:
        """One of the COMMERCIAL counts, by the owner of an access key."""
        self._counter(name, f"{owner}@{topic}@{group}@{kind}").add(value, 1)

    def tick(self, now_ms: int) -> None:
        """Take the samples that are due; call it about every second. The first call takes all."""
        for samples in (self._minute, self._hour, self._day):
            window = samples.window
            if _is_due(self._due_ms[window.place], window.period_ms, now_ms):
                self._due_ms[window.place] = _next_due(self._due_ms[window.place], window.period_ms, now_ms)
                self._sample(samples, now_ms)

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """The body for VIEW_BROKER_STATS_DATA, or None when nothing was ever counted under that name and key."""
        self._spread()
        counter = self._find(name, key)
        if counter is None:
            return None
        return BrokerStatsData(
            stats_minute=counter.over(self._minute),
            stats_hour=counter.over(self._hour),
            stats_day=counter.over(self._day),
        )

    def group_get_tps(self, group: str, topic: str) -> float:
        """How fast a group consumes a topic, over the last minute."""
        counter = self._find(StatsName.GROUP_GET_NUMS, f"{topic}@{group}")
        return counter.over(self._minute).tps if counter is not None else 0.0

    def refresh(self) -> None:
        """Bring the totals up to date before `total` is read."""
        self._spread()

    def total(self, name: StatsName, key: str) -> int | None:
        """The sum since the start, up to the last `refresh` or sample; None when nothing was ever counted."""
        counter = self._counters.get(name, {}).get(key)
        return None if counter is None else counter.value

    def minute(self, name: StatsName, key: str) -> BrokerStatsItem | None:
        """Sum and rate over the last minute; None when nothing was ever counted."""
        counter = self._counters.get(name, {}).get(key)
        return None if counter is None else counter.over(self._minute)

    def snapshot(self) -> StatsSnapshot:
        """All totals at once."""
        self._spread()
        totals = {
            name.value: {key: (counter.value, counter.times) for key, counter in counters.items()}
            for name, counters in self._counters.items()
        }
        return StatsSnapshot(totals, dict(self.fall_behind_bytes), dict(self.fall_behind_ms))

    def topic_deleted(self, topic: str) -> None:
        """Drop the counts of a topic."""
        self._forget(TOPIC_PART, topic)
        self._forget_falls(-2, topic)
        for key in [key for key in self._puts if key[0] == topic]:
            del self._puts[key]
        for pulled in [pulled for pulled in self._gets if pulled[1] == topic]:
            del self._gets[pulled]

    def group_deleted(self, group: str) -> None:
        """Drop the counts of a group."""
        self._forget(GROUP_PART, group)
        self._forget_falls(-1, group)
        for pulled in [pulled for pulled in self._gets if pulled[0] == group]:
            del self._gets[pulled]

    def _sample(self, samples: Samples, now_ms: int) -> None:
        self._spread()
        samples.take(now_ms)
        for counters in self._counters.values():
            for counter in counters.values():
                counter.sample(samples.window)

    def _find(self, name: str, key: str) -> Counter | None:
        if name not in StatsName.__members__:
            return None
        return self._counters.get(StatsName(name), {}).get(key)

    def _counter(self, name: StatsName, key: str) -> Counter:
        counters = self._counters[name]
        counter = counters.get(key)
        if counter is None:
            counter = counters[key] = Counter()
        return counter

    def _spread(self) -> None:
        """Move the counts of the hot path into the counters."""
        for (topic, queue_id), put in self._puts.items():
            if put.times:
                self._spread_put(topic, queue_id, put.count, put.times, put.size)
                put.count = put.times = put.size = 0
        for (group, topic, queue_id), given in self._gets.items():
            if given.times:
                self._spread_get(group, topic, queue_id, given)
                given.count = given.times = given.size = given.latency_ms = 0
            if given.behind >= 0:
                self.fall_behind_bytes[f"{queue_id}@{topic}@{group}"] = given.behind
                given.behind = -1

    def _spread_put(self, topic: str, queue_id: int, count: int, times: int, size: int) -> None:
        self._counter(StatsName.TOPIC_PUT_NUMS, topic).add(count, times)
        self._counter(StatsName.TOPIC_PUT_SIZE, topic).add(size, times)
        # Apache counts no additions for the broker as a whole, so its mean stays 0.
        self._counter(StatsName.BROKER_PUT_NUMS, self._cluster).add(count, 0)
        if self._detailed:
            self._counter(StatsName.QUEUE_PUT_NUMS, f"{topic}@{queue_id}").add(count, times)
            self._counter(StatsName.QUEUE_PUT_SIZE, f"{topic}@{queue_id}").add(size, times)

    def _spread_get(self, group: str, topic: str, queue_id: int, given: GetCell) -> None:
        count, times, size = given.count, given.times, given.size
        self._counter(StatsName.GROUP_GET_NUMS, f"{topic}@{group}").add(count, times)
        self._counter(StatsName.GROUP_GET_SIZE, f"{topic}@{group}").add(size, times)
        if self._detailed:
            self._counter(StatsName.QUEUE_GET_NUMS, f"{topic}@{queue_id}@{group}").add(count, times)
            self._counter(StatsName.QUEUE_GET_SIZE, f"{topic}@{queue_id}@{group}").add(size, times)
        if group == SCHEDULE_GROUP:  # delivery by the broker itself is not a pull
            return
        self._counter(StatsName.BROKER_GET_NUMS, self._cluster).add(count, 0)
        key = f"{queue_id}@{topic}@{group}" if self._detailed else f"{topic}@{group}"
        self._counter(StatsName.GROUP_GET_LATENCY, key).add(given.latency_ms, times)

    def _forget(self, parts: Mapping[StatsName, int], name: str) -> None:
        self._spread()
        for stats_name, part in parts.items():
            counters = self._counters.get(stats_name, {})
            for key in [key for key in counters if has_part(key, part, name)]:
                del counters[key]

    def _forget_falls(self, part: int, name: str) -> None:
        for falls in (self.fall_behind_bytes, self.fall_behind_ms):
            for key in [key for key in falls if has_part(key, part, name)]:
                del falls[key]


def _is_due(due_ms: int, period_ms: int, now_ms: int) -> bool:
    """Whether a sample is due. True also when the clock was set back, else sampling would stop until it catches up."""
    return now_ms >= due_ms or now_ms < due_ms - period_ms


def _next_due(due_ms: int, period_ms: int, now_ms: int) -> int:
    """When the next sample is due: a whole number of periods after the first; missed ones are skipped."""
    if due_ms == 0 or now_ms < due_ms:
        return now_ms + period_ms
    return due_ms + ((now_ms - due_ms) // period_ms + 1) * period_ms
