"""Ariane's own families of a sample: the lag of single queues, and groups whose members disagree."""

from heapq import nlargest
from typing import Final

from ariane.broker.config.live import LiveOptions
from ariane.broker.metrics.sample import Sample
from ariane.broker.tables.clients import ClientTable
from ariane.ops.metrics import Collected, Metric, label_text

_QUEUE: Final = ("cluster", "broker", "topic", "group", "queue")
QUEUE_LAG = Metric(
    "ariane_queue_lag_messages",
    "Messages of a queue that a group has not consumed; queues without a lag are left out",
    _QUEUE,
)
LEFT_OUT = Metric("ariane_queue_lag_left_out", "Queues with a lag beyond metricsQueueLagMax, which are not shown")
CONFLICT = Metric(
    "ariane_subscription_conflict", "1 for a group whose members have different subscriptions", ("group",)
)
UNCONSUMED = Metric(
    "ariane_group_without_consumer_messages", "Messages that wait for a group that has no consumer online", ("group",)
)


class OwnFamilies:
    """Makes the families from a sample."""

    metrics = (QUEUE_LAG, LEFT_OUT, CONFLICT, UNCONSUMED)

    def __init__(self, clients: ClientTable, options: LiveOptions) -> None:
        self._clients = clients
        self._options = options

    def collect(self, sample: Sample) -> Collected:
        """All families with their rows."""
        options = self._options.current
        most = options.metrics_queue_lag_max
        place = {"cluster": options.broker_cluster_name, "broker": options.broker_name}
        yield (
            QUEUE_LAG,
            (
                (label_text({**place, "topic": topic, "group": group, "queue": str(queue_id)}), lag)
                for lag, topic, group, queue_id in nlargest(most, sample.queues)
            ),
        )
        yield LEFT_OUT, [("", max(len(sample.queues) - most, 0))]
        yield CONFLICT, ((label_text({"group": found.group}), 1) for found in self._clients.inconsistencies())
        waiting: dict[str, int] = {}
        for row in sample.groups:
            if row.lag > 0 and not row.online:
                waiting[row.group] = waiting.get(row.group, 0) + row.lag
        yield UNCONSUMED, ((label_text({"group": group}), lag) for group, lag in waiting.items())
