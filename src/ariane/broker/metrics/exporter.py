"""The families of rocketmq-exporter about topics, groups, clients and the broker.

Names and labels are the exporter's. A broker exports only its own figures: the exporter adds up all brokers for the
families without a `broker` label; here `sum by (group, topic)` in a query does that.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ariane.broker.metrics.consumers import ConsumerPoll
from ariane.broker.metrics.sample import Sample
from ariane.broker.stats import BrokerStats, StatsName
from ariane.broker.tables.clients import ClientInfo, ClientTable
from ariane.message import DLQ_PREFIX, RETRY_PREFIX
from ariane.ops.metrics import Collected, Metric, Rows, label_text
from ariane.remoting.limited_log import clip

MOST_ADDRESSES: Final = 100  # of a group's clients in one label
LONGEST_ID: Final = 100  # characters of a client's id in it

_DIFF = ("group", "topic", "countOfOnlineConsumers", "msgModel")
_TOPIC = ("cluster", "broker", "topic")
_GROUP = ("cluster", "broker", "topic", "group")
_CLIENT = ("clientAddr", "clientId", "group", "topic")
_BROKER = ("cluster", "brokerIP", "broker")
_PRODUCER = ("cluster", "broker", "group")

GROUP_DIFF = Metric("rocketmq_group_diff", "Messages of a topic that a group has not consumed", _DIFF)
GROUP_RETRYDIFF = Metric("rocketmq_group_retrydiff", "Messages to be retried that a group has not consumed", _DIFF)
GROUP_DLQDIFF = Metric("rocketmq_group_dlqdiff", "Dead letters of a group that it has not consumed", _DIFF)
GROUP_COUNT = Metric("rocketmq_group_count", "Consumers online", ("caddr", "localaddr", "group"))
PRODUCER_COUNT = Metric("rocketmq_producer_count", "Producers online", _PRODUCER)
PRODUCER_OFFSET = Metric("rocketmq_producer_offset", "Sum of the ends of a topic's queues", _TOPIC)
RETRY_OFFSET = Metric("rocketmq_topic_retry_offset", "Sum of the ends of a retry topic's queues", _TOPIC)
DLQ_OFFSET = Metric("rocketmq_topic_dlq_offset", "Sum of the ends of the queues of dead letters", _PRODUCER)
PRODUCER_TPS = Metric("rocketmq_producer_tps", "Messages stored a second, over the last minute", _TOPIC)
PRODUCER_SIZE = Metric("rocketmq_producer_message_size", "Bytes stored a second, over the last minute", _TOPIC)
CONSUMER_TPS = Metric("rocketmq_consumer_tps", "Messages delivered a second, over the last minute", _GROUP)
CONSUME_TPS = Metric("rocketmq_group_consume_tps", "The same, for every group with progress", _GROUP)
CONSUMER_SIZE = Metric("rocketmq_consumer_message_size", "Bytes delivered a second, over the last minute", _GROUP)
CONSUMER_OFFSET = Metric("rocketmq_consumer_offset", "Sum of the committed offsets", _GROUP)
TOTAL_OFFSET = Metric("rocketmq_group_consume_total_offset", "The same as rocketmq_consumer_offset", _GROUP)
SEND_BACK = Metric("rocketmq_send_back_nums", "Messages sent back to be retried in the last minute", _GROUP)
LATENCY = Metric(
    "rocketmq_group_get_latency_by_storetime", "Age of the oldest message that is not consumed, ms", _GROUP
)
BROKER_TPS = Metric("rocketmq_broker_tps", "Messages stored a second, over the last minute", _BROKER)
BROKER_QPS = Metric("rocketmq_broker_qps", "Messages delivered a second, over the last minute", _BROKER)
COMMITLOG_DIFF = Metric("rocketmq_broker_commitlog_diff", "Bytes of the log that a slave does not have yet", _BROKER)
CLIENT_FAMILIES = (
    Metric("rocketmq_client_consume_fail_msg_count", "Messages that failed in the client's last hour", _CLIENT),
    Metric("rocketmq_client_consume_fail_msg_tps", "Messages that failed a second, by the client", _CLIENT),
    Metric("rocketmq_client_consume_ok_msg_tps", "Messages consumed a second, by the client", _CLIENT),
    Metric("rocketmq_client_consume_rt", "Mean time of consuming, ms, by the client", _CLIENT),
    Metric("rocketmq_client_consumer_pull_rt", "Mean time of a pull, ms, by the client", _CLIENT),
    Metric("rocketmq_client_consumer_pull_tps", "Messages pulled a second, by the client", _CLIENT),
)

Slaves = Callable[[], Iterable[tuple[str, int]]]
"""The address of each slave, and its lag in bytes of the log."""


class ExporterFamilies:
    """Makes the families from a sample."""

    metrics = (
        GROUP_DIFF, GROUP_RETRYDIFF, GROUP_DLQDIFF, GROUP_COUNT, PRODUCER_COUNT, PRODUCER_OFFSET, RETRY_OFFSET,
        DLQ_OFFSET, PRODUCER_TPS, PRODUCER_SIZE, CONSUMER_TPS, CONSUME_TPS, CONSUMER_SIZE, CONSUMER_OFFSET,
        TOTAL_OFFSET, SEND_BACK, LATENCY, BROKER_TPS, BROKER_QPS, COMMITLOG_DIFF, *CLIENT_FAMILIES,
    )  # fmt: skip

    def __init__(
        self,
        stats: BrokerStats,
        clients: ClientTable,
        consumers: ConsumerPoll,
        *,
        cluster: str,
        broker: str,
        address: Callable[[], str],
        slaves: Slaves,
    ) -> None:
        self._stats = stats
        self._clients = clients
        self._consumers = consumers
        self._cluster = cluster
        self._broker = broker
        self._address = address
        self._slaves = slaves

    def collect(self, sample: Sample) -> Collected:
        """All families with their rows."""
        rows = [row for row in sample.groups if not row.broadcasting and not row.topic.startswith(DLQ_PREFIX)]
        yield GROUP_DIFF, ((row.diff_labels(), row.diff) for row in rows if not row.topic.startswith(RETRY_PREFIX))
        yield GROUP_RETRYDIFF, ((row.diff_labels(), row.diff) for row in rows if row.topic.startswith(RETRY_PREFIX))
        yield GROUP_DLQDIFF, ((row.diff_labels(), row.diff) for row in sample.dead_letters)
        yield GROUP_COUNT, self._members(sample)
        yield PRODUCER_COUNT, self._producers()
        yield PRODUCER_OFFSET, ((row.labels, row.end) for row in sample.topics if row.is_plain)
        yield RETRY_OFFSET, ((row.labels, row.end) for row in sample.topics if row.name.startswith(RETRY_PREFIX))
        yield DLQ_OFFSET, ((row.labels, row.consumed) for row in sample.dead_letters)
        yield PRODUCER_TPS, self._puts(sample, StatsName.TOPIC_PUT_NUMS)
        yield PRODUCER_SIZE, self._puts(sample, StatsName.TOPIC_PUT_SIZE)
        yield CONSUMER_TPS, self._gets(sample, StatsName.GROUP_GET_NUMS)
        yield CONSUME_TPS, ((row.labels, self._stats.group_get_tps(row.group, row.topic)) for row in rows)
        yield CONSUMER_SIZE, self._gets(sample, StatsName.GROUP_GET_SIZE)
        yield CONSUMER_OFFSET, ((row.labels, row.consumed) for row in sample.groups)
        yield TOTAL_OFFSET, ((row.labels, row.consumed) for row in sample.groups)
        yield SEND_BACK, self._sent_back(sample)
        yield LATENCY, ((row.labels, row.latency_ms) for row in rows)
        yield BROKER_TPS, self._of_broker(StatsName.BROKER_PUT_NUMS)
        yield BROKER_QPS, self._of_broker(StatsName.BROKER_GET_NUMS)
        yield COMMITLOG_DIFF, ((self._broker_labels(address), behind) for address, behind in self._slaves())
        for place, metric in enumerate(CLIENT_FAMILIES):
            yield metric, ((labels, figures[place]) for labels, figures in self._consumers.rows())

    def _members(self, sample: Sample) -> Rows:
        """The online consumers of each group that has subscribed or committed, 0 included."""
        for group in sorted({row.group for row in sample.groups}):
            found = self._clients.consumer_group(group)
            members = [] if found is None else list(found.members.values())
            labels = {"caddr": _joined(members, _address), "localaddr": _joined(members, _id), "group": group}
            yield label_text(labels), len(members)

    def _producers(self) -> Rows:
        for group, members in self._clients.producer_groups().items():
            yield label_text({"cluster": self._cluster, "broker": self._broker, "group": group}), len(members)

    def _puts(self, sample: Sample, name: StatsName) -> Rows:
        for row in sample.topics:
            if row.is_plain and (counted := self._stats.minute(name, row.name)) is not None:
                yield row.labels, counted.tps

    def _gets(self, sample: Sample, name: StatsName) -> Rows:
        for row in sample.groups:
            if row.is_plain and (counted := self._stats.minute(name, row.key)) is not None:
                yield row.labels, counted.tps

    def _sent_back(self, sample: Sample) -> Rows:
        for row in sample.groups:
            if row.is_plain and (counted := self._stats.minute(StatsName.SNDBCK_PUT_NUMS, row.key)) is not None:
                yield row.labels, counted.sum

    def _of_broker(self, name: StatsName) -> Rows:
        counted = self._stats.minute(name, self._cluster)
        yield self._broker_labels(self._address()), 0.0 if counted is None else counted.tps

    def _broker_labels(self, address: str) -> str:
        return label_text({"cluster": self._cluster, "brokerIP": address, "broker": self._broker})


def _joined(members: list[ClientInfo], text: Callable[[ClientInfo], str]) -> str:
    more = f",and {len(members) - MOST_ADDRESSES} more" if len(members) > MOST_ADDRESSES else ""
    return ",".join(map(text, members[:MOST_ADDRESSES])) + more


def _address(member: ClientInfo) -> str:
    return member.connection.peer


def _id(member: ClientInfo) -> str:
    return clip(member.client_id, LONGEST_ID)
