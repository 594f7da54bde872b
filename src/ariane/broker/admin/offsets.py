"""Offsets as operators and slaves see them: all of them, clones, corrections, progress of delays."""

from __future__ import annotations

from ariane.broker.delay.delivery import Delay
from ariane.broker.names import check_group
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.offsets import COMMITTED_HERE, OffsetTable
from ariane.broker.tables.persistence import KeptTable
from ariane.broker.tables.topics import TopicTable
from ariane.protocol.bodies import ConsumerOffsetTable, QueryCorrectionOffsetBody
from ariane.protocol.command import Command
from ariane.protocol.headers import CloneGroupOffsetRequest, QueryCorrectionOffsetRequest
from ariane.remoting import Connection

JAVA_LONG_MAX = (1 << 63) - 1  # the value for a queue that needs no correction


class AdminOffsetsHandler:
    """Lists, clones and corrects committed offsets."""

    def __init__(
        self, offsets: OffsetTable, file: KeptTable, topics: TopicTable, clients: ClientTable, delay: Delay
    ) -> None:
        self._offsets = offsets
        self._file = file
        self._topics = topics
        self._clients = clients
        self._delay = delay

    def all_consumers(self, _: Connection, request: Command) -> Command:
        """GET_ALL_CONSUMER_OFFSET: every committed offset; for a returning master those committed on this slave."""
        if request.fields.get(COMMITTED_HERE):
            return request.reply(body=ConsumerOffsetTable(self._offsets.committed_here).encode())
        return request.reply(body=self._offsets.table().encode())

    def all_delays(self, _: Connection, request: Command) -> Command:
        """GET_ALL_DELAY_OFFSET: the progress of every delay level."""
        return request.reply(body=self._delay.encode())

    async def clone(self, _: Connection, request: Command) -> Command:
        """CLONE_GROUP_OFFSET: copy offsets to another group, in all topics if none is named (Apache: in none)."""
        header = CloneGroupOffsetRequest.parse(request.fields)
        check_group(header.dest_group)
        offsets = self._offsets
        topics = {header.topic} if header.topic and not header.topic.isspace() else offsets.topics_of(header.src_group)
        for topic in topics:
            if topic in self._topics and (header.offline or self._is_read(header.src_group, topic)):
                offsets.clone(header.src_group, header.dest_group, topic)
        await self._file.confirm_copies()
        return request.reply()

    def _is_read(self, group_name: str, topic: str) -> bool:
        """Whether a group subscribes to a topic; an offline group is assumed to."""
        group = self._clients.consumer_group(group_name)
        return group is None or not group.subscriptions or topic in group.subscriptions

    def correction(self, _: Connection, request: Command) -> Command:
        """QUERY_CORRECTION_OFFSET: the lowest offset of each queue, or the largest number where the group is below."""
        header = QueryCorrectionOffsetRequest.parse(request.fields)
        left_out = [name for name in (header.filter_groups or "").split(",") if name]
        lowest = self._offsets.lowest(header.topic, left_out)
        for queue_id, offset in self._offsets.queues(header.compare_group, header.topic).items():
            if lowest.get(queue_id, JAVA_LONG_MAX) > offset:
                lowest[queue_id] = JAVA_LONG_MAX
        return request.reply(body=QueryCorrectionOffsetBody(lowest).encode())
