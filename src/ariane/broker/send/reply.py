"""SEND_REPLY_MESSAGE: the answer to a request-reply message goes straight to the client that asked."""

from __future__ import annotations

import logging
from random import Random

from ariane.broker.config.live import LiveOptions
from ariane.broker.message_writer import MessageWriter
from ariane.broker.send.target import SendTarget, SendTargets
from ariane.broker.stats.counting import BrokerStats
from ariane.broker.tables.clients import ClientTable
from ariane.env import Clock
from ariane.errors import RemotingError, ResponseError
from ariane.message import MSG_REGION, PUSH_REPLY_TIME, REPLY_TO_CLIENT, TRACE_ON
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fast.sending import kind_of
from ariane.protocol.headers import (
    ReplyMessageRequest,
    SendMessageRequest,
    SendMessageRequestV2,
    SendMessageResponse,
)
from ariane.protocol.ids import host_text, offset_id
from ariane.protocol.properties import decode_properties, encode_properties
from ariane.protocol.units import Unit, host_flags
from ariane.remoting import Connection
from ariane.store import PutStatus

log = logging.getLogger("ariane.broker")

PUSH_TIMEOUT = 10.0


class ReplyHandler:
    """Pushes each reply to the producer that asked, and stores a copy when the options say so."""

    def __init__(
        self,
        clients: ClientTable,
        targets: SendTargets,
        writer: MessageWriter,
        stats: BrokerStats,
        options: LiveOptions,
        clock: Clock,
        random: Random,
    ) -> None:
        self._clients = clients
        self._targets = targets
        self._writer = writer
        self._stats = stats
        self._options = options
        self._clock = clock
        self._random = random

    async def reply(self, connection: Connection, request: Command) -> Command:
        """SEND_REPLY_MESSAGE: field names in full."""
        return await self._reply(connection, request, SendMessageRequest.parse(request.fields))

    async def reply_v2(self, connection: Connection, request: Command) -> Command:
        """SEND_REPLY_MESSAGE_V2: field names of one letter."""
        return await self._reply(connection, request, SendMessageRequestV2.parse(request.fields))

    async def _reply(self, connection: Connection, request: Command, header: SendMessageRequest) -> Command:
        options = self._options.current
        opens_at = options.start_accept_send_request_time_stamp_ms
        if self._clock.now_ms() < opens_at:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {opens_at}")
        target = self._targets.get(header.topic) or self._targets.check(kind_of(header), connection)
        queue_id = self._queue(header, target)
        failed = await self._push(connection, request, header)
        fields = {MSG_REGION: options.region_id, TRACE_ON: "true" if options.trace_on else "false"}
        if failed is None:
            fields |= SendMessageResponse("0", queue_id, 0).fields()
        if options.store_reply_message_enable:
            fields |= self._store(connection, request, header, queue_id)
        code = ResponseCode.SUCCESS if failed is None else ResponseCode.SYSTEM_ERROR
        return request.reply(code, fields, remark=failed)

    def _queue(self, header: SendMessageRequest, target: SendTarget) -> int:
        if header.queue_id < 0:
            return self._random.randrange(max(1, target.write_queues))
        if header.queue_id >= target.queue_limit:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"request queueId[{header.queue_id}] is illegal")
        return header.queue_id

    async def _push(self, connection: Connection, request: Command, header: SendMessageRequest) -> str | None:
        """Push the reply; the remark of a failure, or None."""
        properties = decode_properties(header.properties or "")
        client_id = properties.get(REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{REPLY_TO_CLIENT}] is null"
        client = self._clients.find_producer(client_id)
        if client is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        command = self._command(connection, header, properties, request.body)
        try:
            response = await client.connection.request(command, PUSH_TIMEOUT)
        except RemotingError as error:
            log.warning("a reply could not be pushed to %s: %s", client_id, error)
            return f"push reply message to {client_id}fail."
        return None if response.code == ResponseCode.SUCCESS else f"push reply message to {client_id}fail."

    def _command(
        self, connection: Connection, header: SendMessageRequest, properties: dict[str, str], body: bytes
    ) -> Command:
        now = self._clock.now_ms()
        pushed = ReplyMessageRequest(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            born_host=connection.peer,
            store_host=host_text(self._writer.host),
            store_timestamp=now,
            properties=encode_properties({**properties, PUSH_REPLY_TIME: str(now)}),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        return Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed.fields(), body)

    def _store(
        self, connection: Connection, request: Command, header: SendMessageRequest, queue_id: int
    ) -> dict[str, str]:
        """Store a copy. A failure is logged and does not fail the reply, which was delivered."""
        unit = Unit(
            header.topic.encode(),
            request.body,
            (header.properties or "").encode(),
            queue_id=queue_id,
            flag=header.flag,
            sys_flag=host_flags(header.sys_flag, connection.peer_host, self._writer.host),
            born_time=header.born_timestamp,
            born_host=connection.peer_host,
            reconsume_times=header.reconsume_times or 0,
        )
        result = self._writer.append(unit, copy=False)
        if result.status is not PutStatus.OK:
            log.warning("a reply was delivered but not stored: %s", result.status.name)
            return {}
        self._stats.put(header.topic, queue_id, 1, result.size)
        message_id = offset_id(self._writer.host, result.physical_offset)
        return SendMessageResponse(message_id, queue_id, result.queue_offset).fields()
