"""Progress of groups, time spans of queues, and counters."""

from __future__ import annotations

from collections.abc import Callable

from ariane.broker.config.live import LiveOptions
from ariane.broker.stats import BrokerStats
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable, split_key
from ariane.broker.tables.progress import GroupProgress
from ariane.broker.tables.topics import TopicTable
from ariane.broker.turn import Turn
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.message import MessageQueue
from ariane.protocol.bodies import ConsumeStats, OffsetWrapper, QueryConsumeTimeSpanBody, QueueKey, QueueTimeSpan
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import (
    GetConsumeStatsInBrokerRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
    ViewBrokerStatsDataRequest,
)
from ariane.remoting import Connection
from ariane.store import MessageStore


class AdminStatsHandler:
    """Answers requests for statistics."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        progress: GroupProgress,
        stats: BrokerStats,
        store: MessageStore,
        options: LiveOptions,
        clock: Clock,
        address: Callable[[], str],
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._progress = progress
        self._stats = stats
        self._store = store
        self._options = options
        self._clock = clock
        self._address = address

    def of_group(self, _: Connection, request: Command) -> Command:
        """GET_CONSUME_STATS: the progress of a group, in one topic or in all."""
        header = GetConsumeStatsRequest.parse(request.fields)
        group = header.consumer_group
        topics = {header.topic} if header.topic and not header.topic.isspace() else self._offsets.topics_of(group)
        stats = ConsumeStats()
        for topic in topics:
            self._add_topic(stats, group, topic, read_queues=True)
        return request.reply(body=stats.encode())

    async def of_broker(self, _: Connection, request: Command) -> Command:
        """GET_BROKER_CONSUME_STATS: the progress of every group.

        Computed and written in slices, because a broker may have thousands of groups. Between slices others may commit:
        each group is as of its own moment.
        """
        only_ordered = GetConsumeStatsInBrokerRequest.parse(request.fields).is_order
        turn = Turn()
        topics: dict[str, list[str]] = {}  # once: to search all offsets for each group takes seconds with 2,000 groups
        for key in self._offsets.keys():  # noqa: SIM118  (a method of the table, not of a dict)
            topic, group = split_key(key)
            topics.setdefault(group, []).append(topic)
            await turn.give_way()
        groups: list[bytes] = []
        behind = 0
        for name in [config.group_name for config in self._groups]:
            rows = self._rows(name, topics.get(name, []), only_ordered)
            behind += sum(w.broker_offset - w.consumer_offset for row in rows for w in row.offset_table.values())
            groups.append(dumps({name: [row.members() for row in rows]}))
            await turn.give_way()
        head = dumps({"brokerAddr": self._address(), "totalDiff": behind}).removesuffix(b"}")
        return request.reply(body=head + b',"consumeStatsList":[' + b",".join(groups) + b"]}")

    def _rows(self, group: str, topics: list[str], only_ordered: bool) -> list[ConsumeStats]:
        rows: list[ConsumeStats] = []
        for topic in sorted(topics):
            config = self._topics.get(topic)
            if config is None or (only_ordered and not config.order):
                continue
            stats = ConsumeStats()
            if self._add_topic(stats, group, topic, read_queues=False):
                rows.append(stats)
        return rows

    def _add_topic(self, stats: ConsumeStats, group_name: str, topic: str, *, read_queues: bool) -> bool:
        """Add a topic's queues, unless it is unknown or the group is online and not subscribed to it."""
        config = self._topics.get(topic)
        if config is None or not self._progress.reads(group_name, topic):
            return False
        name = self._options.current.broker_name
        for queue_id in range(config.read_queue_nums if read_queues else config.write_queue_nums):
            stats.offset_table[MessageQueue(topic, name, queue_id)] = self._offset(group_name, topic, queue_id)
        stats.consume_tps += self._stats.group_get_tps(group_name, topic)
        return True

    def _offset(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        end, consumed = self._progress.queue(group, topic, queue_id)
        time = self._store.store_time(topic, queue_id, consumed - 1) if consumed else 0
        return OffsetWrapper(end, consumed, max(0, time))

    def time_span(self, _: Connection, request: Command) -> Command:
        """QUERY_CONSUME_TIME_SPAN: store times of each queue's first and last message and of a group's position."""
        header = QueryConsumeTimeSpanRequest.parse(request.fields)
        config = self._topics.get(header.topic)
        if config is None:
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        spans = [self._span(header, queue_id) for queue_id in range(config.write_queue_nums)]
        return request.reply(body=QueryConsumeTimeSpanBody(spans).encode())

    def _span(self, header: QueryConsumeTimeSpanRequest, queue_id: int) -> QueueTimeSpan:
        store, topic = self._store, header.topic
        end = store.max_offset(topic, queue_id)
        consumed = self._offsets.get(header.group, topic, queue_id)
        first = store.earliest_time(topic, queue_id)
        last = store.store_time(topic, queue_id, end - 1)
        at = store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else first
        next_time = store.store_time(topic, queue_id, max(consumed, 0)) if consumed < end else -1
        delay = self._clock.now_ms() - next_time if next_time > 0 else 0
        queue = QueueKey(topic, self._options.current.broker_name, queue_id)
        return QueueTimeSpan(queue, first, last, at, delay)

    def view(self, _: Connection, request: Command) -> Command:
        """VIEW_BROKER_STATS_DATA: one counter over the last minute, hour and day."""
        header = ViewBrokerStatsDataRequest.parse(request.fields)
        found = self._stats.view(header.stats_name, header.stats_key)
        if found is None:
            remark = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return request.reply(body=found.encode())
