"""Admin for threads, derived from ariane.client.admin by scripts/derive_sync.py."""

from typing import Unpack

from ariane.client.admin import FOREVER
from ariane.client.admin import Admin as AsyncAdmin
from ariane.client.options import ClientKeywords, ClientOptions
from ariane.client.sync.lifecycle import Lifecycle
from ariane.client.sync.portal import Portal
from ariane.env import Env
from ariane.message import MessageQueue, ReceivedMessage
from ariane.protocol.bodies import (
    READ,
    WRITE,
    ClusterInfo,
    ConsumerConnection,
    ConsumeStats,
    ProducerConnection,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    TopicConfigTable,
    TopicRouteData,
    TopicStatsTable,
)


class Admin(Lifecycle):
    """Administers a cluster. `address=` selects one broker; the default is all masters of the cluster."""

    _client: AsyncAdmin

    def __init__(
        self, *, options: ClientOptions | None = None, env: Env | None = None, **keywords: Unpack[ClientKeywords]
    ) -> None:
        self._portal = Portal.get()
        self._client = AsyncAdmin(options=options, env=env, **keywords)

    def cluster_info(self) -> ClusterInfo:
        """Brokers and clusters."""
        return self._portal.run(self._client.cluster_info())

    def masters(self) -> list[str]:
        """The addresses of all masters."""
        return self._portal.run(self._client.masters())

    def topics(self) -> list[str]:
        """The names of all topics."""
        return self._portal.run(self._client.topics())

    def route(self, topic: str) -> TopicRouteData:
        """The brokers and queues of a topic; RouteMissing when there is none."""
        return self._portal.run(self._client.route(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        return self._portal.run(self._client.queues(topic))

    def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        write_queues: int | None = None,
        perm: int = READ | WRITE,
        order: bool = False,
        address: str | None = None,
    ) -> None:
        """Create a topic, or change it."""
        self._portal.run(
            self._client.create_topic(
                topic, queues=queues, write_queues=write_queues, perm=perm, order=order, address=address
            )
        )

    def delete_topic(self, topic: str) -> None:
        """Delete a topic on all masters and at all name servers."""
        self._portal.run(self._client.delete_topic(topic))

    def topic_configs(self, address: str) -> TopicConfigTable:
        """The topics of one broker, with their configuration."""
        return self._portal.run(self._client.topic_configs(address))

    def create_group(self, config: SubscriptionGroupConfig | str, *, address: str | None = None) -> None:
        """Create a consumer group, or change it; a name alone gives a group with the default settings."""
        self._portal.run(self._client.create_group(config, address=address))

    def delete_group(self, group: str, *, remove_offsets: bool = False, address: str | None = None) -> None:
        """Delete a consumer group."""
        self._portal.run(self._client.delete_group(group, remove_offsets=remove_offsets, address=address))

    def groups(self, address: str) -> SubscriptionGroupTable:
        """The consumer groups of one broker."""
        return self._portal.run(self._client.groups(address))

    def topic_stats(self, topic: str) -> TopicStatsTable:
        """First and last offset of each queue of a topic."""
        return self._portal.run(self._client.topic_stats(topic))

    def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """The offsets of a group by queue."""
        return self._portal.run(self._client.consume_stats(group, topic))

    def lag(self, group: str, topic: str | None = None) -> int:
        """The number of messages that a group has not consumed yet."""
        return self._portal.run(self._client.lag(group, topic))

    def consumer_connections(self, group: str) -> ConsumerConnection:
        """The consumers of a group that are online; BrokerRefused with code CONSUMER_NOT_ONLINE when there are none."""
        return self._portal.run(self._client.consumer_connections(group))

    def producer_connections(self, group: str, topic: str) -> ProducerConnection:
        """The producers of a group that are online."""
        return self._portal.run(self._client.producer_connections(group, topic))

    def reset_offset(self, group: str, topic: str, timestamp: int, *, force: bool = True) -> dict[MessageQueue, int]:
        """Move a group whose consumers are online to a time in milliseconds (-1: the end); returns the new offsets."""
        return self._portal.run(self._client.reset_offset(group, topic, timestamp, force=force))

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the broker still has."""
        return self._portal.run(self._client.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return self._portal.run(self._client.max_offset(queue))

    def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message stored at or after a time in milliseconds."""
        return self._portal.run(self._client.search_offset(queue, timestamp))

    def earliest_store_time(self, queue: MessageQueue) -> int:
        """The store time of the oldest message, in milliseconds."""
        return self._portal.run(self._client.earliest_store_time(queue))

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group committed; None when it never did."""
        return self._portal.run(self._client.committed(group, queue))

    def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit an offset for a group."""
        self._portal.run(self._client.commit(group, queue, offset))

    def view_message(self, offset_id: str) -> ReceivedMessage:
        """A message by its offset id, which the broker gave it."""
        return self._portal.run(self._client.view_message(offset_id))

    def query_messages(
        self, topic: str, key: str, *, count: int = 64, begin: int = 0, end: int = FOREVER
    ) -> list[ReceivedMessage]:
        """Messages with a key, stored between two times in milliseconds."""
        return self._portal.run(self._client.query_messages(topic, key, count=count, begin=begin, end=end))

    def find_message(self, topic: str, message_id: str) -> ReceivedMessage | None:
        """A message by its id, which the producer gave it; None when it is in no index."""
        return self._portal.run(self._client.find_message(topic, message_id))

    def broker_config(self, address: str) -> str:
        """The configuration of a broker, as lines of a properties file."""
        return self._portal.run(self._client.broker_config(address))

    def broker_stats(self, address: str) -> dict[str, str]:
        """The runtime statistics of a broker."""
        return self._portal.run(self._client.broker_stats(address))
