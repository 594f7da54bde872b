"""Offsets: read, commit, reset, skip, clone."""

from dataclasses import dataclass

from ariane.client.admin.groups import GroupAdmin
from ariane.client.admin.topics import TopicAdmin
from ariane.errors import BrokerRefused
from ariane.message import MessageQueue
from ariane.protocol.bodies import GetConsumerStatusBody, OffsetWrapper, ResetOffsetBody
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import GetConsumerStatusRequest, ResetOffsetRequest

END = -1
"""As a time to reset to: the end of each queue."""


@dataclass(frozen=True)
class OffsetReset:
    """The offset of one queue, before and after a reset."""

    queue: MessageQueue
    broker_offset: int
    before: int
    found: int
    """The offset of the requested time."""
    after: int

    @property
    def messages(self) -> int:
        """How many messages are delivered again; negative when they are skipped."""
        return self.before - self.after


class OffsetAdmin(GroupAdmin, TopicAdmin):
    """Administers offsets."""

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

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group committed; None when it never did."""
        return await self._running().calls.committed(group, queue)

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit an offset for a group."""
        await self._running().calls.commit(group, queue, offset)

    async def reset_offset(
        self, group: str, topic: str, timestamp: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Move a group whose consumers are online to a time in milliseconds (-1: the end); returns the new offsets."""
        header = ResetOffsetRequest(topic, group, timestamp, force)
        masters = await self._masters_of(topic)
        found = await self._ask_each(masters, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, ResetOffsetBody.decode)
        return {queue: offset for body in found for queue, offset in body.offset_table.items()}

    async def reset_offline(
        self, group: str, topic: str, timestamp: int, *, force: bool = True, dry_run: bool = False
    ) -> list[OffsetReset]:
        """Commit the offsets of a time for a group without consumers; `dry_run` shows them and commits nothing.

        Without `force` a queue only moves back, never over messages that were not consumed.
        """
        table, calls = await self._progress(group, topic), self._running().calls
        if not dry_run:
            for queue in table:
                await calls.master(queue)  # a slave's lower offset would not survive the master's return
        resets: list[OffsetReset] = []
        for queue, offsets in sorted(table.items()):
            found = await (calls.max_offset(queue) if timestamp == END else calls.search_offset(queue, timestamp))
            moves = force or found <= offsets.consumer_offset
            after = found if moves else offsets.consumer_offset
            if moves and not dry_run:
                await calls.commit(group, queue, found)
            resets.append(OffsetReset(queue, offsets.broker_offset, offsets.consumer_offset, found, after))
        return resets

    async def reset(self, group: str, topic: str, timestamp: int, *, force: bool = True) -> list[OffsetReset]:
        """Move a group to a time in milliseconds (-1: the end), whether its consumers are online or not."""
        plan = await self.reset_offline(group, topic, timestamp, force=force, dry_run=True)
        try:
            moved = await self.reset_offset(group, topic, timestamp, force=force)
        except BrokerRefused as error:
            # A broker checks offsets before clients: a queue without a committed one is refused with another code.
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE and await self._is_online(group):
                raise
            return await self.reset_offline(group, topic, timestamp, force=force)
        return [
            OffsetReset(
                reset.queue, reset.broker_offset, reset.before, reset.found, moved.get(reset.queue, reset.after)
            )
            for reset in plan
        ]

    async def _is_online(self, group: str) -> bool:
        try:
            return bool((await self.consumer_connections(group)).connection_set)
        except BrokerRefused as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            return False

    async def skip_backlog(self, group: str, topic: str) -> list[OffsetReset]:
        """Move a group to the end of a topic: messages not consumed yet are skipped."""
        return await self.reset(group, topic, END)

    async def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, dry_run: bool = False
    ) -> dict[MessageQueue, int]:
        """Copy the offsets of another group, in one topic or in all; the group's consumers must not be running."""
        table = (await self.consume_stats(source, topic)).offset_table
        offsets = {
            queue: stats.consumer_offset
            for queue, stats in sorted(table.items())
            if stats.consumer_offset >= 0 and not queue.topic.startswith("%RETRY%")
        }
        if dry_run or not offsets:
            return offsets
        calls = self._running().calls
        first, *_ = offsets.items()
        try:
            await calls.commit(target, *first)
        except BrokerRefused as error:
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            await self.create_group(target)  # RocketMQ 5 keeps no offsets for a group that it does not know
        for queue, offset in offsets.items():
            await calls.commit(target, queue, offset)
        return offsets

    async def consumer_offsets(self, group: str, topic: str, client_id: str = "") -> dict[str, dict[str, int]]:
        """The offsets that clients of a group hold in memory, by client and queue; Java clients answer this."""
        header = GetConsumerStatusRequest(topic, group, client_id or None)
        addresses = await self._readers_of(topic)
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        return (await self._first_answer(addresses, code, header, GetConsumerStatusBody.decode)).consumer_table

    async def _progress(self, group: str, topic: str) -> dict[MessageQueue, OffsetWrapper]:
        """The offsets of a group in a topic; its first offsets where it has none."""
        table = (await self.consume_stats(group, topic)).offset_table
        if table:
            return table
        stats = (await self.topic_stats(topic)).offset_table
        return {queue: OffsetWrapper(offsets.max_offset, offsets.min_offset) for queue, offsets in stats.items()}
