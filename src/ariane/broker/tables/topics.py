"""The topics of a broker: the queues of each, and its permissions."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ariane import message
from ariane.broker.config import BrokerOptions
from ariane.broker.names import SYSTEM_TOPICS, check_topic
from ariane.broker.seldom_log import SeldomLog
from ariane.broker.tables.shares import Shares
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.message import AUTO_CREATE_TOPIC
from ariane.protocol.bodies import DataVersion, KVTable, TopicConfig, TopicConfigTable
from ariane.protocol.bodies.topics import INHERIT, READ, WRITE
from ariane.protocol.codes import ResponseCode
from ariane.remoting.gates import Peer
from ariane.remoting.limits import LimitExceeded, Reason

log = logging.getLogger("ariane.broker")

_DEFAULT_QUEUES: Final = 16
_SCHEDULE_QUEUES: Final = 18
_BENCHMARK_QUEUES: Final = 1024


class TopicTable:
    """All topics by name. Routes, caches and the file follow changes through `on_change`."""

    def __init__(self, options: BrokerOptions, clock: Clock) -> None:
        self._clock = clock
        self._auto_create_max = options.auto_create_topic_max
        self._auto_create_per_account_max = options.auto_create_topic_per_account_max
        self._shares = Shares(options.auto_create_topic_per_account_max)
        self._on_send: dict[str, float] = {}  # created by a send in this run, and when
        self._full = SeldomLog(log, clock)
        self._options = options
        self._topics: dict[str, TopicConfig] = {c.topic_name: c for c in self.own()}
        self.version = DataVersion(clock.now_ms(), 0)
        self.on_change: list[Callable[[str], None]] = []
        self.deleting: set[str] = set()
        """Topics whose deletion is not committed by their DLedger group: they cannot be created until it is."""
        self.system = SYSTEM_TOPICS | {
            options.broker_cluster_name,
            options.broker_name,
            reply_topic(options.broker_cluster_name),
            options.msg_trace_topic_name,
        }

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(list(self._topics.values()))

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, topic: str) -> TopicConfig | None:
        """The configuration of a topic."""
        return self._topics.get(topic)

    def own(self) -> list[TopicConfig]:
        """The topics that every broker with these options has from its first start."""
        return list(_boot_topics(self._options))

    def names(self) -> set[str]:
        """The names of all topics."""
        return set(self._topics)

    def table(self) -> TopicConfigTable:
        """The body of registrations and of GET_ALL_TOPIC_CONFIG, and the content of topics.json."""
        return TopicConfigTable(self.version, self._topics)

    def load(self, table: TopicConfigTable) -> None:
        """Add the topics of an earlier run to those that every broker has."""
        self._topics.update(table.topic_config_table)
        self.version = table.data_version

    def replace(self, table: TopicConfigTable) -> None:
        """Replace all topics by those of a master."""
        self._topics = dict(table.topic_config_table)
        self.version = table.data_version
        self._tell("")

    def apply(self, topics: dict[str, TopicConfig], deleted: Iterable[str], version: DataVersion) -> None:
        """Take changes of the leader of a DLedger group."""
        for name in deleted:
            self._topics.pop(name, None)
        self._topics.update(topics)
        self.version = version
        self._tell("")

    def update(self, config: TopicConfig) -> None:
        """Create a topic or change it."""
        check_topic(config.topic_name)
        self._check_not_deleting(config.topic_name)
        known = self._topics.get(config.topic_name)
        log.info("topic %s: %s", "changed" if known else "created", config)
        self._shares.remove(config.topic_name)
        self._on_send.pop(config.topic_name, None)
        self._put(config)

    def delete(self, topic: str) -> bool:
        """Delete a topic; False when there was none."""
        if self._topics.pop(topic, None) is None:
            return False
        self._shares.remove(topic)
        self._on_send.pop(topic, None)
        log.info("topic deleted: %s", topic)
        self._tell(topic)
        return True

    def create_on_send(
        self,
        topic: str,
        default_topic: str,
        queues: int,
        sys_flag: int,
        *,
        auto_create: bool,
        by: Peer | None = None,
    ) -> TopicConfig | None:
        """Create a topic like `default_topic` if that may be inherited; LimitExceeded when there are too many."""
        default = self._topics.get(default_topic)
        if default is None or not default.perm & INHERIT:
            return None
        if default_topic == AUTO_CREATE_TOPIC and not auto_create:
            return None
        queues = min(queues, default.write_queue_nums)
        if queues <= 0:
            return None
        check_topic(topic)
        self._check_not_deleting(topic)
        self._check_room(topic, by)
        perm = default.perm & ~INHERIT
        config = TopicConfig(topic, queues, queues, perm, default.topic_filter_type, sys_flag)
        log.info("topic created on send after %s: %s", default_topic, config)
        self._shares.add(topic, by)
        self._on_send[topic] = self._clock.monotonic()
        self._put(config)
        return config

    def created_on_send(self, seconds: float) -> list[str]:
        """The topics that a send created in this run, at least `seconds` ago, and that are not known to be used."""
        latest = self._clock.monotonic() - seconds
        return [topic for topic, created in self._on_send.items() if created <= latest]

    def was_used(self, topic: str) -> None:
        """Keep a topic that a send created."""
        self._on_send.pop(topic, None)

    def _check_room(self, topic: str, by: Peer | None) -> None:
        if len(self._topics) >= self._auto_create_max:
            reason = Reason.TOPICS
            why = f"the broker has {len(self._topics)} topics (autoCreateTopicMax={self._auto_create_max})"
        elif account := self._shares.is_used_up(by):
            reason = Reason.TOPICS_PER_ACCOUNT
            most = self._auto_create_per_account_max
            why = f"{account} created as many as one may (autoCreateTopicPerAccountMax={most})"
        else:
            return
        self._full.warning("topic %s is not created: %s", topic, why)
        what_to_do = "delete unused topics, or create this one with mqadmin updateTopic"
        remark = f"topic[{topic}] not exist, and is not created: {why}; {what_to_do}"
        raise LimitExceeded(reason, ResponseCode.TOPIC_NOT_EXIST, remark)

    def ensure(self, topic: str, queues: int, perm: int = READ | WRITE, sys_flag: int = 0) -> TopicConfig:
        """The topic, created if missing, for the broker's own use: retries, dead letters, half messages."""
        config = self._topics.get(topic)
        if config is None:
            self._check_not_deleting(topic)
            config = TopicConfig(check_topic(topic), queues, queues, perm, topic_sys_flag=sys_flag)
            log.info("topic created on demand: %s", config)
            self._put(config)
        return config

    def mark_ordered(self, ordered: KVTable) -> None:
        """Set the order flag of the topics that the name server lists, and clear it of the others."""
        changed = [c for c in self._topics.values() if c.order != (c.topic_name in ordered.table)]
        for config in changed:
            config.order = not config.order
        for config in changed:
            self._tell(config.topic_name)

    def touch(self) -> None:
        """Make a new version without a change: name servers ignore registrations of a version that they know."""
        self.version = DataVersion(self._clock.now_ms(), self.version.counter + 1)

    def is_system(self, topic: str) -> bool:
        """Whether a topic is the broker's own, which clients may not create, change or delete."""
        return topic in self.system

    def _check_not_deleting(self, topic: str) -> None:
        if topic in self.deleting:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"topic[{topic}] is being deleted: try again")

    def _put(self, config: TopicConfig) -> None:
        self._topics[config.topic_name] = config
        self._tell(config.topic_name)

    def _tell(self, topic: str) -> None:
        if topic:
            self.touch()
        for listener in self.on_change:
            listener(topic)


def reply_topic(cluster: str) -> str:
    """The topic that stores the replies to requests."""
    return f"{cluster}_{message.REPLY_TOPIC_SUFFIX}"


def _boot_topics(options: BrokerOptions) -> Iterator[TopicConfig]:
    """The topics that every broker of 4.9.7 has from its first start."""
    both = READ | WRITE
    yield TopicConfig(message.SELF_TEST_TOPIC, 1, 1)
    if options.auto_create_topic_enable:
        queues = options.default_topic_queue_nums
        yield TopicConfig(AUTO_CREATE_TOPIC, queues, queues, both | INHERIT)
    yield TopicConfig(message.BENCHMARK_TOPIC, _BENCHMARK_QUEUES, _BENCHMARK_QUEUES)
    cluster_perm = INHERIT | (both if options.cluster_topic_enable else 0)
    yield TopicConfig(options.broker_cluster_name, _DEFAULT_QUEUES, _DEFAULT_QUEUES, cluster_perm)
    broker_perm = INHERIT | (both if options.broker_topic_enable else 0)
    yield TopicConfig(options.broker_name, 1, 1, broker_perm)
    yield TopicConfig(message.OFFSET_MOVED_TOPIC, 1, 1)
    yield TopicConfig(message.SCHEDULE_TOPIC, _SCHEDULE_QUEUES, _SCHEDULE_QUEUES)
    if options.trace_topic_enable:
        yield TopicConfig(options.msg_trace_topic_name, 1, 1)
    yield TopicConfig(reply_topic(options.broker_cluster_name), 1, 1)
