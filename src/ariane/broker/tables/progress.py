"""The progress of groups: committed offsets compared with the ends of the queues."""

from collections.abc import Iterator
from typing import Protocol

from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.offsets import OffsetTable, offset_key, split_key
from ariane.broker.tables.topics import TopicTable
from ariane.message import RETRY_PREFIX


class QueueEnds(Protocol):
    """The ends of queues in the store."""

    def max_offset(self, topic: str, queue_id: int) -> int: ...


class GroupProgress:
    """The progress of groups in topics, as requests and metrics show it."""

    def __init__(self, topics: TopicTable, offsets: OffsetTable, clients: ClientTable, store: QueueEnds) -> None:
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._store = store

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every topic with each group that has committed in it, subscribes to it now, or has its retries in it."""
        known = self._offsets.keys()
        for key in known:
            yield split_key(key)
        others = {
            offset_key(topic, group.name): (topic, group.name)
            for group in self._clients.consumer_groups()
            for topic in group.subscriptions
        }
        for config in self._topics:
            if config.topic_name.startswith(RETRY_PREFIX):
                group_name = config.topic_name.removeprefix(RETRY_PREFIX)
                others[offset_key(config.topic_name, group_name)] = (config.topic_name, group_name)
        for key in others.keys() - set(known):
            yield others[key]

    def reads(self, group_name: str, topic: str) -> bool:
        """Whether a group consumes a topic: the topic exists, and the group, if online, subscribes to it."""
        group = self._clients.consumer_group(group_name)
        online_elsewhere = group is not None and bool(group.subscriptions) and topic not in group.subscriptions
        return topic in self._topics and not online_elsewhere

    def queue(self, group: str, topic: str, queue_id: int) -> tuple[int, int]:
        """The end of a queue, and the group's committed offset; 0 for a group that has committed nothing."""
        end = max(0, self._store.max_offset(topic, queue_id))
        return end, max(0, self._offsets.get(group, topic, queue_id))
