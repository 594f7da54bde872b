"""Requests that the broker relays to a consumer: report its state, or consume one message now."""

from __future__ import annotations

import asyncio
from typing import Any

from ariane.broker.config.live import LiveOptions
from ariane.broker.tables.clients import ClientInfo, ClientTable, ConsumerGroup
from ariane.errors import ProtocolError, RemotingError, RequestTimeout, ResponseError
from ariane.protocol import fastjson
from ariane.protocol.codes import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
)
from ariane.protocol.ids import parse_offset_id
from ariane.protocol.signing import CREDENTIALS
from ariane.protocol.units import encode_unit
from ariane.remoting import Connection
from ariane.store import MessageStore

CALL_TIMEOUT = 10.0
STATUS_TIMEOUT = 5.0


class RelayHandler:
    """Relays requests of operators to consumers."""

    def __init__(self, clients: ClientTable, store: MessageStore, options: LiveOptions) -> None:
        self._clients = clients
        self._store = store
        self._options = options

    async def running_info(self, _: Connection, request: Command) -> Command:
        """GET_CONSUMER_RUNNING_INFO: the state that a consumer reports of itself."""
        header = GetConsumerRunningInfoRequest.parse(request.fields)
        return await self._call(request, header.consumer_group, header.client_id, request.fields, request.body)

    async def consume_directly(self, _: Connection, request: Command) -> Command:
        """CONSUME_MESSAGE_DIRECTLY: have a consumer process one message now."""
        header = ConsumeMessageDirectlyRequest.parse(request.fields)
        fields = {**request.fields, "brokerName": self._options.current.broker_name}
        body = self._message(header.msg_id)
        return await self._call(request, header.consumer_group, header.client_id or "", fields, body)

    def _message(self, msg_id: str | None) -> bytes:
        try:
            _, offset = parse_offset_id(msg_id or "")
        except ProtocolError as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        unit = self._store.message_at(offset)
        if unit is None:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
        return encode_unit(unit)

    async def _call(self, request: Command, group: str, client_id: str, fields: dict[str, str], body: bytes) -> Command:
        client = self._member(group, client_id)
        fields = {name: value for name, value in fields.items() if name not in CREDENTIALS}
        try:
            answer = await client.connection.request(Command(request.code, fields, body), CALL_TIMEOUT)
        except RequestTimeout as error:
            remark = f"consumer <{group}> <{client_id}> Timeout: {error}"
            raise ResponseError(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from None
        except RemotingError as error:
            remark = f"invoke consumer <{group}> <{client_id}> Exception: {error}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark) from None
        return request.reply(answer.code, answer.fields, answer.body, answer.remark)

    def _member(self, group: str, client_id: str) -> ClientInfo:
        members = self._clients.consumer_group(group)
        client = members.find(client_id) if members is not None else None
        if client is None:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        if client.version < V3_1_8_SNAPSHOT:
            remark = f"The Consumer <{client_id}> Version <{client.version}> too low to finish"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{remark}, please upgrade it to V3_1_8_SNAPSHOT")
        return client

    async def status(self, _: Connection, request: Command) -> Command:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: the offsets that each member of a group has reached."""
        header = GetConsumerStatusRequest.parse(request.fields)
        group = self._clients.consumer_group(header.group)
        if group is None or not group.members:
            remark = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        members = self._asked(group, header.client_addr)
        answers = await asyncio.gather(*(self._ask_status(member, header) for member in members))
        table = {member.client_id: a for member, a in zip(members, answers, strict=True) if a is not None}
        return request.reply(body=fastjson.dumps({"consumerTable": table, "messageQueueTable": {}}))

    def _asked(self, group: ConsumerGroup, client_id: str | None) -> list[ClientInfo]:
        for member in group.members.values():
            if member.version < V3_0_7_SNAPSHOT:
                remark = f"the client does not support this feature. version={member.version}"
                raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return [m for m in group.members.values() if not client_id or m.client_id == client_id]

    async def _ask_status(self, member: ClientInfo, header: GetConsumerStatusRequest) -> dict[Any, Any] | None:
        """The member's queues and offsets as it sent them; None without an answer."""
        fields = GetConsumerStatusRequest(header.topic, header.group).fields()
        command = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields)
        try:
            answer = await member.connection.request(command, STATUS_TIMEOUT)
            table = fastjson.loads(answer.body) if answer.code == ResponseCode.SUCCESS and answer.body else {}
        except (RemotingError, ProtocolError):
            return None  # answer with what the other members sent
        found = table.get("messageQueueTable") if isinstance(table, dict) else None
        return found if isinstance(found, dict) else None
