"""PullClient for threads, derived from ariane.client.consumer.pull_client by scripts/derive_sync.py."""

from typing import Unpack

from ariane.client.consumer.pull_client import TOOLS_GROUP
from ariane.client.consumer.pull_client import PullClient as AsyncPullClient
from ariane.client.options import ClientKeywords, ClientOptions, Selector
from ariane.client.results import PullResult
from ariane.client.sync.lifecycle import Lifecycle
from ariane.client.sync.portal import Portal
from ariane.env import Env
from ariane.message import MessageQueue, ReceivedMessage


class PullClient(Lifecycle):
    """Reads queues at any offset."""

    _client: AsyncPullClient

    def __init__(
        self,
        group: str = TOOLS_GROUP,
        *,
        options: ClientOptions | None = None,
        env: Env | None = None,
        **keywords: Unpack[ClientKeywords],
    ) -> None:
        self._portal = Portal.get()
        self._client = AsyncPullClient(group, options=options, env=env, **keywords)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic, sorted."""
        return self._portal.run(self._client.queues(topic))

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

    def committed(self, queue: MessageQueue, *, group: str | None = None) -> int | None:
        """The offset that a group committed; None when it never did."""
        return self._portal.run(self._client.committed(queue, group=group))

    def commit(self, queue: MessageQueue, offset: int, *, group: str | None = None, wait: bool = True) -> None:
        """Set a group's offset at the broker."""
        self._portal.run(self._client.commit(queue, offset, group=group, wait=wait))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_count: int = 32,
        expression: Selector = "*",
        *,
        suspend: float = 0.0,
        timeout: float = 10.0,
    ) -> PullResult:
        """Pull once, without decoding the units; with `suspend` the broker may wait so many seconds for messages."""
        return self._portal.run(
            self._client.pull(queue, offset, max_count, expression, suspend=suspend, timeout=timeout)
        )

    def pull_messages(
        self,
        queue: MessageQueue,
        offset: int,
        max_count: int = 32,
        expression: Selector = "*",
        *,
        suspend: float = 0.0,
        timeout: float = 10.0,
    ) -> list[ReceivedMessage]:
        """Pull once and decode; empty when there is nothing."""
        return self._portal.run(
            self._client.pull_messages(queue, offset, max_count, expression, suspend=suspend, timeout=timeout)
        )
