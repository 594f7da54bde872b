"""Resets of a group's offsets by an operator: through the online consumers, or by the broker alone."""

from __future__ import annotations

import logging

from ariane.broker.config.live import LiveOptions
from ariane.broker.tables.clients import ClientTable, ConsumerGroup
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import KeptTable
from ariane.broker.tables.topics import TopicTable
from ariane.errors import RemotingError, ResponseError
from ariane.message import MessageQueue
from ariane.protocol import fastjson
from ariane.protocol.bodies import ResetOffsetBody, TopicConfig
from ariane.protocol.codes import V3_0_7_SNAPSHOT, RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import Int32, Int64, ResetOffsetRequest
from ariane.remoting import Connection
from ariane.store import MessageStore

log = logging.getLogger("ariane.broker")

TO_END = -1  # the timestamp that means the end of each queue
BY_TIME = -1  # the offset that tools of 5.x send when the timestamp counts


class ServerResetRequest(ResetOffsetRequest):
    """The request of newer tools: with a queue or an offset, the broker resets without the clients."""

    queue_id: Int32 = -1
    offset: Int64 | None = None
    server_side: bool = False


class ResetHandler:
    """INVOKE_BROKER_TO_RESET_OFFSET."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        file: KeptTable,
        clients: ClientTable,
        store: MessageStore,
        options: LiveOptions,
    ) -> None:
        self._file = file
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._store = store
        self._options = options

    async def reset(self, connection: Connection, request: Command) -> Command:
        """Reset through the clients, or by the broker alone when the request names a queue or an offset."""
        header = ServerResetRequest.parse(request.fields)
        log.info("reset of group %s in topic %s requested by %s", header.group, header.topic, connection.peer)
        offset = None if header.offset == BY_TIME else header.offset
        if header.server_side or offset is not None or header.queue_id >= 0:
            offsets = self.reset_here(header.group, header.topic, header.timestamp, header.queue_id, offset)
        else:
            offsets = self._reset_through_clients(header, for_cpp=request.language == "CPP")
        await self._file.confirm_copies()
        return request.reply(body=ResetOffsetBody(offsets).encode())

    # Through the clients, as in 4.9.

    def _reset_through_clients(self, header: ResetOffsetRequest, *, for_cpp: bool) -> dict[MessageQueue, int]:
        offsets = self._targets(header)
        group = self._clients.consumer_group(header.group)
        if group is None or not group.members:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic} "
                f"Timestamp: {header.timestamp}"
            )
            raise ResponseError(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        self._check_versions(group)
        for queue, offset in offsets.items():
            self._offsets.reset(header.group, header.topic, queue.queue_id, offset)
        fields = ResetOffsetRequest(header.topic, header.group, header.timestamp).fields()
        body = _body_for_cpp(offsets) if for_cpp else ResetOffsetBody(offsets).encode()
        for connection in list(group.members):
            self._tell(connection, Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, dict(fields), body))
        return offsets

    def _targets(self, header: ResetOffsetRequest) -> dict[MessageQueue, int]:
        config = self._topics.get(header.topic)
        if config is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        name = self._options.current.broker_name
        queues = range(config.write_queue_nums)
        return {MessageQueue(header.topic, name, q): self._target(header, q) for q in queues}

    def _target(self, header: ResetOffsetRequest, queue_id: int) -> int:
        committed = self._offsets.get(header.group, header.topic, queue_id)
        if committed < 0:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
        wanted = self._by_time(header.topic, queue_id, header.timestamp)
        return wanted if header.is_force or wanted < committed else committed

    def _by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        store = self._store
        if timestamp == TO_END:
            return max(0, store.max_offset(topic, queue_id))
        return max(0, store.offset_by_time(topic, queue_id, timestamp))

    def _check_versions(self, group: ConsumerGroup) -> None:
        for member in group.members.values():
            if member.version < V3_0_7_SNAPSHOT:
                remark = f"the client does not support this feature. version={member.version}"
                raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)

    def _tell(self, connection: Connection, command: Command) -> None:
        try:
            connection.oneway(command)
        except RemotingError as error:
            log.warning("reset not told to %s: %s", connection.peer, error)

    # By the broker alone.

    def reset_here(
        self, group: str, topic: str, timestamp: int, queue_id: int = -1, offset: int | None = None
    ) -> dict[MessageQueue, int]:
        """Reset to an offset or a time; the next pull of each queue is answered with the new offset."""
        config = self._topics.get(topic)
        if config is None:
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if self._groups.get(group) is None:
            raise ResponseError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
        targets = {
            q: self._by_time(topic, q, timestamp) if offset is None else self._in_range(topic, q, offset)
            for q in _queues(config, queue_id, offset)
        }
        for q, target in targets.items():
            self._offsets.reset_at_next_pull(group, topic, q, target)
        name = self._options.current.broker_name
        return {MessageQueue(topic, name, q): target for q, target in targets.items()}

    def _in_range(self, topic: str, queue_id: int, offset: int) -> int:
        low = max(0, self._store.min_offset(topic, queue_id))
        high = max(0, self._store.max_offset(topic, queue_id))
        if not low <= offset <= high:
            remark = f"Target offset {offset} not in consume queue range [{low}-{high}]"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return offset


def _queues(config: TopicConfig, queue_id: int, offset: int | None) -> list[int]:
    if queue_id < 0 and offset is None:
        return list(range(config.read_queue_nums))
    if not 0 <= queue_id < config.read_queue_nums:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"Queue {queue_id} of {config.topic_name} does not exist")
    return [queue_id]


def _body_for_cpp(offsets: dict[MessageQueue, int]) -> bytes:
    """The C++ client cannot parse objects as map keys: send it a list."""
    rows = [
        {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id, "offset": offset}
        for queue, offset in offsets.items()
    ]
    return fastjson.dumps({"offsetTable": rows})
