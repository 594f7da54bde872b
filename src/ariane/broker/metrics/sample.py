"""One scrape's reading of the broker's tables: a row for each topic, and for each topic and group.

Reading yields to the event loop between small steps: the rows are not a consistent snapshot.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ariane.broker.stats import BrokerStats
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.progress import GroupProgress
from ariane.broker.tables.topics import TopicTable
from ariane.env import Clock
from ariane.message import DLQ_PREFIX, RETRY_PREFIX
from ariane.ops.metrics import label_text
from ariane.protocol.bodies import TopicConfig
from ariane.store import MessageStore

TIME_BUDGET: Final = 0.2  # seconds that one scrape may spend on reading store times
EVERY: Final = 200  # rows between two turns of the event loop
CLUSTERING: Final = "1"  # the ordinals of Apache's MessageModel
BROADCASTING: Final = "0"


@dataclass(slots=True)
class TopicRow:
    """A topic."""

    name: str
    labels: str
    """cluster, broker, topic."""
    native: str
    """cluster, node_type, node_id, topic, message_type and so on."""
    end: int
    """The sum of the ends of its queues."""

    @property
    def is_plain(self) -> bool:
        """Whether it is neither a retry topic nor one of dead letters."""
        return not self.name.startswith((RETRY_PREFIX, DLQ_PREFIX))


@dataclass(slots=True)
class GroupRow:
    """A group in a topic."""

    topic: str
    group: str
    labels: str
    """cluster, broker, topic, group."""
    native: str
    online: int
    broadcasting: bool
    lag: int = 0
    """Messages not consumed yet."""
    diff: int = 0
    """The same as RocketMQ computes it: below 0 where an offset is beyond the end of its queue."""
    consumed: int = 0
    latency_ms: int = 0
    """The age of the oldest message that is not consumed; 0 when there is none."""

    @property
    def key(self) -> str:
        """The key of its statistics."""
        return f"{self.topic}@{self.group}"

    @property
    def is_plain(self) -> bool:
        """Whether the topic is neither a retry topic nor one of dead letters."""
        return not self.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))

    def diff_labels(self) -> str:
        """group, topic, countOfOnlineConsumers, msgModel."""
        return label_text(
            {
                "group": self.group,
                "topic": self.topic,
                "countOfOnlineConsumers": str(self.online),
                "msgModel": BROADCASTING if self.broadcasting else CLUSTERING,
            }
        )


@dataclass(slots=True)
class Sample:
    """The rows of one scrape."""

    topics: list[TopicRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    dead_letters: list[GroupRow] = field(default_factory=list)
    """A row for each topic of dead letters; `diff` is what its group has not consumed, `consumed` its end."""
    queues: list[tuple[int, str, str, int]] = field(default_factory=list)
    """Lag, topic, group and id of each queue that has a lag."""


class Sampler:
    """Reads the tables for a scrape."""

    def __init__(
        self,
        topics: TopicTable,
        progress: GroupProgress,
        clients: ClientTable,
        store: MessageStore,
        stats: BrokerStats,
        clock: Clock,
        *,
        cluster: str,
        broker: str,
    ) -> None:
        self._topics = topics
        self._progress = progress
        self._clients = clients
        self._store = store
        self._stats = stats
        self._clock = clock
        self._place = label_text({"cluster": cluster, "broker": broker})
        self._node = node_labels(cluster, broker)
        self._times: dict[tuple[str, str, int], tuple[int, int]] = {}  # offset and store time, by queue and group

    def take(self, sample: Sample) -> Iterator[None]:
        """Fill the sample; each yield lets the event loop run."""
        self._stats.refresh()
        yield
        yield from self._take_topics(sample)
        yield from self._take_groups(sample)

    def _take_topics(self, sample: Sample) -> Iterator[None]:
        ends: dict[str, int] = {}
        for number, queue in enumerate(self._store.table):
            config = self._topics.get(queue.topic)
            if config is not None and queue.queue_id < config.write_queue_nums:
                ends[queue.topic] = ends.get(queue.topic, 0) + max(queue.max_offset, 0)
            if not number % EVERY:
                yield
        for number, config in enumerate(self._topics):
            name = config.topic_name
            topic = label_text({"topic": name})
            system = "true" if self._topics.is_system(name) else "false"
            native = f'{self._node},{topic},message_type="normal",is_system="{system}"'
            sample.topics.append(TopicRow(name, f"{self._place},{topic}", native, ends.get(name, 0)))
            if name.startswith(DLQ_PREFIX):
                sample.dead_letters.append(self._dead_letters(config, name.removeprefix(DLQ_PREFIX)))
            if not number % EVERY:
                yield

    def _take_groups(self, sample: Sample) -> Iterator[None]:
        now, spent = self._clock.now_ms(), 0.0
        times: dict[tuple[str, str, int], tuple[int, int]] = {}
        for number, (topic, group) in enumerate(self._progress.pairs()):
            if not number % EVERY:
                yield
            config = self._topics.get(topic)
            if config is None or not self._progress.reads(group, topic):
                continue
            members = self._clients.consumer_group(group)
            broadcasting = members is not None and members.message_model == "BROADCASTING"
            names = label_text({"topic": topic, "group": group})
            native = f"{self._node},{label_text({'topic': topic, 'consumer_group': group})}"
            online = 0 if members is None else len(members.members)
            row = GroupRow(topic, group, f"{self._place},{names}", native, online, broadcasting)
            oldest = 0
            for queue_id in range(config.read_queue_nums):
                end, consumed = self._progress.queue(group, topic, queue_id)
                row.consumed += consumed
                row.diff += end - consumed
                row.lag += max(end - consumed, 0)
                if end > consumed:
                    sample.queues.append((end - consumed, topic, group, queue_id))
                    known = self._times.get((topic, group, queue_id), (-1, -1))
                    if known[0] != consumed and spent < TIME_BUDGET:  # else use the time of an earlier scrape
                        began = self._clock.monotonic()
                        known = consumed, self._oldest(topic, queue_id, consumed)
                        spent += self._clock.monotonic() - began
                    times[topic, group, queue_id] = known
                    if known[1] > 0:
                        oldest = min(oldest or known[1], known[1])
            row.latency_ms = max(now - oldest, 0) if oldest else 0
            sample.groups.append(row)
        self._times = times

    def _dead_letters(self, config: TopicConfig, group: str) -> GroupRow:
        topic = config.topic_name
        members = self._clients.consumer_group(group)
        labels = f"{self._place},{label_text({'group': group})}"
        row = GroupRow(topic, group, labels, "", 0 if members is None else len(members.members), False)
        for queue_id in range(config.read_queue_nums):
            end, consumed = self._progress.queue(group, topic, queue_id)
            row.diff += max(end - max(consumed, self._store.min_offset(topic, queue_id)), 0)
            row.consumed += end
        return row

    def _oldest(self, topic: str, queue_id: int, consumed: int) -> int:
        """The store time of the first message after an offset that is still in the queue; -1 when there is none."""
        return self._store.store_time(topic, queue_id, max(consumed, self._store.min_offset(topic, queue_id)))


def node_labels(cluster: str, broker: str) -> str:
    """The labels that every family of RocketMQ 5 has."""
    return label_text({"cluster": cluster, "node_type": "broker", "node_id": broker})
