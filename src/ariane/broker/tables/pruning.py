"""Removing what is no longer used: offsets of dropped queues, groups and topics never used, expired locks."""

import logging
from typing import Final, Protocol

from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.queue_locks import QueueLocks
from ariane.broker.tables.queues import QueueEnds, Queues
from ariane.broker.tables.topics import TopicTable
from ariane.message import dead_letter_topic, retry_topic
from ariane.protocol.bodies import DataVersion, TopicConfig

log = logging.getLogger("ariane.broker")

UNUSED: Final = 600.0  # seconds after which a group created by use must have been used


class GroupStats(Protocol):
    """The statistics of groups."""

    def group_deleted(self, group: str) -> None: ...


class Pruning:
    """One pass over the tables; state created by merely naming a group or topic is removed after its client left."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        clients: ClientTable,
        locks: QueueLocks,
        queues: Queues,
        store: QueueEnds,
        stats: GroupStats,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._locks = locks
        self._queues = queues
        self._store = store
        self._stats = stats
        self._topics_seen: DataVersion | None = None

    def run(self) -> None:
        """Remove what is unused now."""
        self._locks.expire()
        if self._topics_seen != self._topics.version:  # offsets lose their queue when a topic changes
            self._topics_seen = self._topics.version
            self._offsets.drop_dead_queues(self._is_alive)
        self._drop_unused_groups()
        self._drop_unused_topics()

    def _is_alive(self, topic: str, queue_id: int) -> bool:
        """A queue with messages keeps its offsets, also when topics.json lost its topic."""
        return self._queues.exists(topic, queue_id) or self._store.max_offset(topic, queue_id) > 0

    def _drop_unused_groups(self) -> None:
        """Delete groups that were created by use, have no member, and have neither offsets nor retries.

        Their members would create them again. A group that was configured or used stays.
        """
        created = self._groups.on_demand(UNUSED)
        if not created:
            return
        used = self._offsets.groups()
        dropped = 0
        for group in created:
            if group in used or self._has_failed_messages(group):
                self._groups.was_used(group)
            elif self._clients.consumer_group(group) is None:
                self._groups.delete(group)
                self._topics.delete(retry_topic(group))
                self._stats.group_deleted(group)
                dropped += 1
        if dropped:
            log.info("%d groups that were created by use and never consumed are deleted", dropped)

    def _drop_unused_topics(self) -> None:
        """Delete topics that a send created and that got no message, because that send was refused after all."""
        for topic in self._topics.created_on_send(UNUSED):
            config = self._topics.get(topic)
            if config is None or self._has_messages(topic, config) or self._offsets.groups_of(topic):
                self._topics.was_used(topic)
            elif not self._clients.groups_of(topic):
                self._topics.delete(topic)
                log.info("topic %s, which a refused send created, is deleted", topic)

    def _has_messages(self, topic: str, config: TopicConfig) -> bool:
        queues = range(max(config.read_queue_nums, config.write_queue_nums))
        return any(self._store.max_offset(topic, queue_id) > 0 for queue_id in queues)

    def _has_failed_messages(self, group: str) -> bool:
        if dead_letter_topic(group) in self._topics:
            return True
        retry = self._topics.get(retry_topic(group))
        return retry is not None and self._has_messages(retry.topic_name, retry)
