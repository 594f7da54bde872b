"""The families that RocketMQ 5's brokers show themselves, as far as a 4.9 broker has the figures."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from ariane.broker.config.live import LiveOptions
from ariane.broker.metrics.sample import Sample, node_labels
from ariane.broker.names import is_system_group
from ariane.broker.stats import BrokerStats, StatsName
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.topics import TopicTable
from ariane.env import Clock
from ariane.message import RETRY_PREFIX
from ariane.ops.metrics import Collected, Metric, Rows, label_text
from ariane.store import MessageStore

_NODE: Final = ("cluster", "node_type", "node_id")
_TOPIC: Final = (*_NODE, "topic", "message_type", "is_system")
_GROUP: Final = (*_NODE, "topic", "consumer_group")
_STORE: Final = (*_NODE, "storage_type", "storage_medium")

IN = Metric("rocketmq_messages_in_total", "Messages stored", _TOPIC, "counter")
THROUGHPUT_IN = Metric("rocketmq_throughput_in_total", "Bytes stored", _TOPIC, "counter")
OUT = Metric("rocketmq_messages_out_total", "Messages delivered", _GROUP, "counter")
THROUGHPUT_OUT = Metric("rocketmq_throughput_out_total", "Bytes delivered", _GROUP, "counter")
LAG = Metric("rocketmq_consumer_lag_messages", "Messages that a group has not consumed", (*_GROUP, "is_retry"))
LAG_LATENCY = Metric(
    "rocketmq_consumer_lag_latency", "Age of the oldest message that is not consumed, ms", (*_GROUP, "is_retry")
)
READY = Metric(
    "rocketmq_consumer_ready_messages", "The same as the lag: what was pulled and not committed counts", _GROUP
)
DLQ = Metric("rocketmq_send_to_dlq_messages_total", "Dead letters stored", _GROUP, "counter")
PRODUCERS = Metric(
    "rocketmq_producer_connections", "Producers online", (*_NODE, "language", "version", "protocol_type")
)
CONSUMERS = Metric(
    "rocketmq_consumer_connections",
    "Consumers online",
    (*_NODE, "consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
)
PERMISSION = Metric("rocketmq_broker_permission", "2 write, 4 read, 6 both, 0 none", _NODE)
TOPICS = Metric("rocketmq_topic_number", "Topics", _NODE)
GROUPS = Metric("rocketmq_consumer_group_number", "Consumer groups", _NODE)
WATERMARK = Metric("rocketmq_processor_watermark", "Requests that wait for their promise", (*_NODE, "processor"))
SIZE = Metric("rocketmq_storage_size", "Bytes of the log", _STORE)
FLUSH = Metric("rocketmq_storage_flush_behind_bytes", "Bytes that are not flushed yet", _STORE)
DISPATCH = Metric("rocketmq_storage_dispatch_behind_bytes", "Bytes of the log that are in no queue yet", _STORE)
RESERVE = Metric("rocketmq_storage_message_reserve_time", "Age of the first message in the log, ms", _STORE)


class NativeFamilies:
    """Makes the families from a sample and the tables."""

    metrics = (
        IN, THROUGHPUT_IN, OUT, THROUGHPUT_OUT, LAG, LAG_LATENCY, READY, DLQ, PRODUCERS, CONSUMERS, PERMISSION,
        TOPICS, GROUPS, WATERMARK, SIZE, FLUSH, DISPATCH, RESERVE,
    )  # fmt: skip

    def __init__(
        self,
        stats: BrokerStats,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        store: MessageStore,
        options: LiveOptions,
        clock: Clock,
        waiting: Callable[[], int],
    ) -> None:
        self._stats = stats
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._store = store
        self._options = options
        self._clock = clock
        self._waiting = waiting
        self._node = node_labels(options.current.broker_cluster_name, options.current.broker_name)

    def collect(self, sample: Sample) -> Collected:
        """All families with their rows."""
        node, store = self._node, self._store
        yield IN, self._puts(sample, StatsName.TOPIC_PUT_NUMS)
        yield THROUGHPUT_IN, self._puts(sample, StatsName.TOPIC_PUT_SIZE)
        yield OUT, self._gets(sample, StatsName.GROUP_GET_NUMS)
        yield THROUGHPUT_OUT, self._gets(sample, StatsName.GROUP_GET_SIZE)
        rows = [row for row in sample.groups if not row.broadcasting]
        yield LAG, ((row.native + _is_retry(row.topic), row.lag) for row in rows)
        yield LAG_LATENCY, ((row.native + _is_retry(row.topic), row.latency_ms) for row in rows)
        yield READY, ((row.native, row.lag) for row in rows)
        yield DLQ, self._dead_letters(sample)
        yield PRODUCERS, self._producers()
        yield CONSUMERS, self._consumers()
        yield PERMISSION, [(node, self._options.current.broker_permission)]
        yield TOPICS, [(node, len(self._topics))]
        yield GROUPS, [(node, len(self._groups))]
        yield WATERMARK, [(f'{node},processor="send"', self._waiting())]
        disk = f'{node},storage_type="local",storage_medium="disk"'
        first = store.unit_at(store.log_min)
        yield SIZE, [(disk, store.log_max - max(store.log_min, 0))]
        yield FLUSH, [(disk, store.log_max - store.flushed_offset)]
        yield DISPATCH, [(disk, store.dispatch_behind)]
        yield RESERVE, [(disk, 0 if first is None else max(self._clock.now_ms() - first.store_time, 0))]

    def _puts(self, sample: Sample, name: StatsName) -> Rows:
        for row in sample.topics:
            if (total := self._stats.total(name, row.name)) is not None:
                yield row.native, total

    def _gets(self, sample: Sample, name: StatsName) -> Rows:
        for row in sample.groups:
            if (total := self._stats.total(name, row.key)) is not None:
                yield row.native, total

    def _dead_letters(self, sample: Sample) -> Rows:
        """The end offsets of dead-letter queues: the number of dead letters ever stored."""
        for row in sample.dead_letters:
            labels = label_text({"topic": row.topic, "consumer_group": row.group})
            yield f"{self._node},{labels}", row.consumed

    def _producers(self) -> Rows:
        counted = Counter(
            (member.language, member.version)
            for members in self._clients.producer_groups().values()
            for member in members
        )
        for (language, version), count in counted.items():
            labels = {"language": language.lower(), "version": str(version), "protocol_type": "remoting"}
            yield f"{self._node},{label_text(labels)}", count

    def _consumers(self) -> Rows:
        for group in self._clients.consumer_groups():
            counted = Counter((member.language, member.version) for member in group.members.values())
            for (language, version), count in counted.items():
                labels = {
                    "consumer_group": group.name,
                    "language": language.lower(),
                    "version": str(version),
                    "consume_mode": "push" if group.consume_type == "CONSUME_PASSIVELY" else "pull",
                    "protocol_type": "remoting",
                    "is_system": "true" if is_system_group(group.name) else "false",
                }
                yield f"{self._node},{label_text(labels)}", count


def _is_retry(topic: str) -> str:
    return ',is_retry="true"' if topic.startswith(RETRY_PREFIX) else ',is_retry="false"'
