"""Cleaning the store on demand, and the entries of a consumequeue."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

from ariane.broker.names import SYSTEM_TOPICS
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.topics import TopicTable
from ariane.errors import ResponseError
from ariane.filter import ConsumerFilters, FilterData
from ariane.protocol.bodies import ConsumeQueueData, QueryConsumeQueueResponseBody
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import QueryConsumeQueueRequest
from ariane.remoting import Connection
from ariane.store import MessageStore

MOST_ENTRIES = 10_000  # of one answer


class AdminStoreHandler:
    """Cleans the store and shows queues."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        clients: ClientTable,
        filters: ConsumerFilters,
        *,
        drop_topics: Callable[[set[str]], None],
        keep_queues: bool,
    ) -> None:
        """`keep_queues`: other brokers have the same queues, and must give their next messages the same offsets."""
        self._store = store
        self._topics = topics
        self._clients = clients
        self._filters = filters
        self._drop_topics = drop_topics
        self._keep_queues = keep_queues

    def clean_queues(self, _: Connection, request: Command) -> Command:
        """CLEAN_EXPIRED_CONSUMEQUEUE: drop queues without a message in the log; a DLedger member keeps them.

        A dropped queue begins again at 0. In a group, the next leader would go on where its own copy ended.
        """
        if self._keep_queues:
            return request.reply(remark="kept: the other members of the group have these queues too")
        self._store.clean_expired_consumequeues()
        return request.reply()

    def delete_files(self, _: Connection, request: Command) -> Command:
        """DELETE_EXPIRED_COMMITLOG: delete expired log files now, whatever the hour."""
        self._store.delete_expired_files()
        return request.reply()

    def clean_topics(self, _: Connection, request: Command) -> Command:
        """CLEAN_UNUSED_TOPIC: drop the queues of unknown topics."""
        self._drop_topics(self._store.unused_topics(self._topics.names() | SYSTEM_TOPICS))
        return request.reply()

    def look(self, _: Connection, request: Command) -> Command:
        """QUERY_CONSUME_QUEUE: entries of a queue as they are stored."""
        header = QueryConsumeQueueRequest.parse(request.fields)
        if (header.topic, header.queue_id) not in self._queues():
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
        store = self._store
        body = QueryConsumeQueueResponseBody(
            max_queue_index=store.max_offset(header.topic, header.queue_id),
            min_queue_index=store.min_offset(header.topic, header.queue_id),
        )
        self._add_group(body, header)
        count = min(max(header.count, 0), MOST_ENTRIES)
        entries = store.queue_entries(header.topic, header.queue_id, header.index, count)
        if not body.min_queue_index <= header.index < body.max_queue_index:
            remark = f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!"
            return request.reply(remark=remark)
        body.queue_data = [ConsumeQueueData(*entry) for entry in entries]
        return request.reply(body=_without_nulls(body))

    def _queues(self) -> set[tuple[str, int]]:
        return set(self._store.queues())

    def _add_group(self, body: QueryConsumeQueueResponseBody, header: QueryConsumeQueueRequest) -> None:
        if header.consumer_group is None:
            return
        group = self._clients.consumer_group(header.consumer_group)
        body.subscription_data = None if group is None else group.subscriptions.get(header.topic)
        if body.subscription_data is None:
            body.filter_data = f"{header.consumer_group}@{header.topic} is not online!"
        else:
            body.filter_data = _shown(self._filters.get(header.topic, header.consumer_group))


def _shown(data: FilterData | None) -> str:
    """The data of an SQL92 expression as Java prints them."""
    if data is None:
        return "null"
    members = {**msgspec.to_builtins(data), "dead": data.dead}
    return json.dumps(dict(sorted(members.items())), indent="\t", separators=(",", ":"))


def _without_nulls(body: QueryConsumeQueueResponseBody) -> bytes:
    """Encode without null members, as Java does."""
    members = msgspec.to_builtins(body)
    members["queueData"] = [{k: v for k, v in row.items() if v is not None} for row in members["queueData"]]
    return dumps({key: value for key, value in members.items() if value is not None})
