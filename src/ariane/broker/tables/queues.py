"""Which queues a broker has: those of its topics, and those that still hold messages."""

from typing import Protocol

from ariane.broker.tables.topics import TopicTable


class QueueEnds(Protocol):
    """The ends of queues in the store."""

    def max_offset(self, topic: str, queue_id: int) -> int: ...


class Queues:
    """Checks whether queues exist, so that no state is kept for others."""

    def __init__(self, topics: TopicTable, store: QueueEnds) -> None:
        self._topics = topics
        self._store = store

    def exists(self, topic: str, queue_id: int) -> bool:
        """Whether a topic has a queue for reading or writing, or messages are left in it."""
        config = self._topics.get(topic)
        if config is not None and 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            return True
        if config is None and not self._topics.is_system(topic):
            return False
        # A topic that shrank may have messages left. The op topic of transactions is in no table, as with Apache.
        return queue_id == 0 or self._store.max_offset(topic, queue_id) > 0
