"""Offsets as operators and slaves see them: all of them, clones, corrections, progress of delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.names import check_group
from ariane.protocol.bodies import QueryCorrectionOffsetBody
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import CloneGroupOffsetRequest, QueryCorrectionOffsetRequest
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

JAVA_LONG_MAX = (1 << 63) - 1  # says: this queue needs no correction


class AdminOffsetsHandler:
    """Answers about committed offsets."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def all_consumers(self, _: Connection, request: Command) -> Command:
        return request.reply(body=self._broker.offsets.table().encode())

    def all_delays(self, _: Connection, request: Command) -> Command:
        return request.reply(body=self._broker.kinds.delay.encode())

    def clone(self, _: Connection, request: Command) -> Command:
        """Give one group the offsets of another; without a topic in all (Apache's broker then clones nothing)."""
        header = CloneGroupOffsetRequest.parse(request.fields)
        check_group(header.dest_group)
        offsets = self._broker.offsets
        topics = {header.topic} if header.topic and not header.topic.isspace() else offsets.topics_of(header.src_group)
        for topic in topics:
            if topic in self._broker.topics and (header.offline or self._is_read(header.src_group, topic)):
                offsets.clone(header.src_group, header.dest_group, topic)
        return request.reply()

    def _is_read(self, group_name: str, topic: str) -> bool:
        """Whether an online group subscribes to a topic; one that is offline may have."""
        group = self._broker.clients.consumer_group(group_name)
        return group is None or not group.subscriptions or topic in group.subscriptions

    def correction(self, _: Connection, request: Command) -> Command:
        """The lowest offset of each queue among all groups, or the largest number where a group is below that."""
        header = QueryCorrectionOffsetRequest.parse(request.fields)
        left_out = [name for name in (header.filter_groups or "").split(",") if name]
        lowest = self._broker.offsets.lowest(header.topic, left_out)
        for queue_id, offset in self._broker.offsets.queues(header.compare_group, header.topic).items():
            if lowest.get(queue_id, JAVA_LONG_MAX) > offset:
                lowest[queue_id] = JAVA_LONG_MAX
        return request.reply(body=QueryCorrectionOffsetBody(lowest).encode())


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = AdminOffsetsHandler(broker)
    return {
        RequestCode.GET_ALL_CONSUMER_OFFSET: handler.all_consumers,
        RequestCode.GET_ALL_DELAY_OFFSET: handler.all_delays,
        RequestCode.CLONE_GROUP_OFFSET: handler.clone,
        RequestCode.QUERY_CORRECTION_OFFSET: handler.correction,
    }
