"""The pull client: queues, offsets and raw pulls, without membership in a group."""

from typing import Unpack

from ariane.client.connect.instance import Instance
from ariane.client.connect.lifecycle import Lifecycle
from ariane.client.decoding import decode_messages
from ariane.client.options import ClientKeywords, ClientOptions, Selector
from ariane.client.results import PullResult
from ariane.env import Env
from ariane.message import MessageQueue, ReceivedMessage

TOOLS_GROUP = "TOOLS_CONSUMER"  # a group that every broker creates


class PullClient(Lifecycle):
    """Reads queues at any offset."""

    def __init__(
        self,
        group: str = TOOLS_GROUP,
        *,
        options: ClientOptions | None = None,
        env: Env | None = None,
        **keywords: Unpack[ClientKeywords],
    ) -> None:
        super().__init__("reader", group, ClientOptions.of(options, keywords), env, ())
        self._suggested: dict[MessageQueue, int] = {}

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic, sorted."""
        return await self._running().calls.queues(topic)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the broker still has."""
        return await self._running().calls.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return await self._running().calls.max_offset(queue)

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message stored at or after a time in milliseconds."""
        return await self._running().calls.search_offset(queue, timestamp)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """The store time of the oldest message, in milliseconds."""
        return await self._running().calls.earliest_store_time(queue)

    async def committed(self, queue: MessageQueue, *, group: str | None = None) -> int | None:
        """The offset that a group committed; None when it never did."""
        return await self._running().calls.committed(group or self._group, queue)

    async def commit(self, queue: MessageQueue, offset: int, *, group: str | None = None, wait: bool = True) -> None:
        """Set a group's offset at the broker."""
        await self._running().calls.commit(group or self._group, queue, offset, wait=wait)

    async def pull(
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
        broker_id = self._suggested.get(queue, 0)
        result = await self._running().calls.pull(
            self._group, queue, offset, max_count, expression, suspend=suspend, broker_id=broker_id, timeout=timeout
        )
        self._suggested[queue] = result.suggested_broker
        return result

    async def pull_messages(
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
        result = await self.pull(queue, offset, max_count, expression, suspend=suspend, timeout=timeout)
        return decode_messages(result.body, queue.broker_name)

    async def _open(self, instance: Instance) -> None:
        """Do nothing: a pull client is not a member of the group."""
