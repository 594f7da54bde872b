"""How far groups are and how much goes through: the statistics that operators ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ariane.errors import ResponseError
from ariane.message import MessageQueue
from ariane.protocol.bodies import ConsumeStats, OffsetWrapper, QueryConsumeTimeSpanBody, QueueKey, QueueTimeSpan
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import (
    GetConsumeStatsInBrokerRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
    ViewBrokerStatsDataRequest,
)
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker


class AdminStatsHandler:
    """Progress of groups, time spans of queues, counters."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def of_group(self, _: Connection, request: Command) -> Command:
        """GET_CONSUME_STATS: how far a group is, in one topic or in all."""
        header = GetConsumeStatsRequest.parse(request.fields)
        topics = {header.topic} if header.topic and not header.topic.isspace() else self._topics(header.consumer_group)
        stats = ConsumeStats()
        for topic in topics:
            self._add_topic(stats, header.consumer_group, topic, read_queues=True)
        return request.reply(body=stats.encode())

    def of_broker(self, _: Connection, request: Command) -> Command:
        """GET_BROKER_CONSUME_STATS: how far every group is."""
        only_ordered = GetConsumeStatsInBrokerRequest.parse(request.fields).is_order
        groups: list[dict[str, Any]] = []
        behind = 0
        for config in self._broker.groups:
            rows = self._rows(config.group_name, only_ordered)
            behind += sum(w.broker_offset - w.consumer_offset for row in rows for w in row.offset_table.values())
            groups.append({config.group_name: [row.members() for row in rows]})
        body = {"brokerAddr": self._broker.address, "consumeStatsList": groups, "totalDiff": behind}
        return request.reply(body=dumps(body))

    def _rows(self, group: str, only_ordered: bool) -> list[ConsumeStats]:
        rows: list[ConsumeStats] = []
        for topic in sorted(self._topics(group)):
            config = self._broker.topics.get(topic)
            if config is None or (only_ordered and not config.order):
                continue
            stats = ConsumeStats()
            if self._add_topic(stats, group, topic, read_queues=False):
                rows.append(stats)
        return rows

    def _topics(self, group: str) -> set[str]:
        return self._broker.offsets.topics_of(group)

    def _add_topic(self, stats: ConsumeStats, group_name: str, topic: str, *, read_queues: bool) -> bool:
        """Add a topic's queues, unless it is unknown or the group, being online, reads other topics."""
        config = self._broker.topics.get(topic)
        group = self._broker.clients.consumer_group(group_name)
        online_elsewhere = group is not None and bool(group.subscriptions) and topic not in group.subscriptions
        if config is None or online_elsewhere:
            return False
        name = self._broker.options.broker_name
        for queue_id in range(config.read_queue_nums if read_queues else config.write_queue_nums):
            stats.offset_table[MessageQueue(topic, name, queue_id)] = self._progress(group_name, topic, queue_id)
        stats.consume_tps += self._broker.stats.group_get_tps(group_name, topic)
        return True

    def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        store = self._broker.store
        end = max(0, store.max_offset(topic, queue_id))
        consumed = max(0, self._broker.offsets.get(group, topic, queue_id))
        time = store.store_time(topic, queue_id, consumed - 1) if consumed else 0
        return OffsetWrapper(end, consumed, max(0, time))

    def time_span(self, _: Connection, request: Command) -> Command:
        """QUERY_CONSUME_TIME_SPAN: from when to when a queue reaches, and where in it a group is."""
        header = QueryConsumeTimeSpanRequest.parse(request.fields)
        config = self._broker.topics.get(header.topic)
        if config is None:
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        spans = [self._span(header, queue_id) for queue_id in range(config.write_queue_nums)]
        return request.reply(body=QueryConsumeTimeSpanBody(spans).encode())

    def _span(self, header: QueryConsumeTimeSpanRequest, queue_id: int) -> QueueTimeSpan:
        store, topic = self._broker.store, header.topic
        end = store.max_offset(topic, queue_id)
        consumed = self._broker.offsets.get(header.group, topic, queue_id)
        first = store.earliest_time(topic, queue_id)
        last = store.store_time(topic, queue_id, end - 1)
        at = store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else first
        next_time = store.store_time(topic, queue_id, max(consumed, 0)) if consumed < end else -1
        delay = self._broker.env.clock.now_ms() - next_time if next_time > 0 else 0
        queue = QueueKey(topic, self._broker.options.broker_name, queue_id)
        return QueueTimeSpan(queue, first, last, at, delay)

    def view(self, _: Connection, request: Command) -> Command:
        header = ViewBrokerStatsDataRequest.parse(request.fields)
        found = self._broker.stats.view(header.stats_name, header.stats_key)
        if found is None:
            remark = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return request.reply(body=found.encode())


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = AdminStatsHandler(broker)
    return {
        RequestCode.GET_CONSUME_STATS: handler.of_group,
        RequestCode.GET_BROKER_CONSUME_STATS: handler.of_broker,
        RequestCode.QUERY_CONSUME_TIME_SPAN: handler.time_span,
        RequestCode.VIEW_BROKER_STATS_DATA: handler.view,
    }
