"""Lists of connected clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ariane.broker.tables.clients import ClientInfo, ClientTable
from ariane.broker.tables.consistency import Inconsistency
from ariane.errors import ResponseError
from ariane.protocol.bodies import (
    Connection as ConnectionBody,
)
from ariane.protocol.bodies import (
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import GetConsumerConnectionListRequest, GetProducerConnectionListRequest
from ariane.remoting import Connection

INCONSISTENCY = "subscriptionInconsistency"
"""Ariane's own member of a consumer connection body; Apache's tools ignore it."""


class AdminClientsHandler:
    """Lists of clients by group."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients

    def consumers(self, _: Connection, request: Command) -> Command:
        """GET_CONSUMER_CONNECTION_LIST: the members of a consumer group and its subscriptions."""
        name = GetConsumerConnectionListRequest.parse(request.fields).consumer_group
        group = self._clients.consumer_group(name)
        if group is None:
            raise ResponseError(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        body = ConsumerConnection(
            _connections(group.members.values()),
            dict(group.subscriptions),
            group.consume_type,
            group.message_model,
            group.consume_from_where,
        )
        members: dict[str, Any] = msgspec.to_builtins(body)
        found = next((found for found in self._clients.inconsistencies() if found.group == name), None)
        if found is not None:
            members[INCONSISTENCY] = _described(found)
        return request.reply(body=dumps(members))

    def producers(self, _: Connection, request: Command) -> Command:
        """GET_PRODUCER_CONNECTION_LIST: the members of a producer group."""
        name = GetProducerConnectionListRequest.parse(request.fields).producer_group
        producers = self._clients.producers(name)
        if not producers:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return request.reply(body=ProducerConnection(_connections(producers)).encode())

    def all_producers(self, _: Connection, request: Command) -> Command:
        """GET_ALL_PRODUCER_INFO: every producer by group."""
        groups = self._clients.producer_groups()
        table = {group: [_producer_info(client) for client in members] for group, members in groups.items()}
        return request.reply(body=ProducerTableInfo(table).encode())


def _connections(clients: Iterable[ClientInfo]) -> list[ConnectionBody]:
    return [ConnectionBody(c.client_id, c.connection.peer, c.language, c.version) for c in clients]


def _producer_info(client: ClientInfo) -> ProducerInfo:
    """One row. The address has Java's form: a slash in place of the host name."""
    address = f"/{client.connection.peer}"
    return ProducerInfo(client.client_id, address, client.language, client.version, client.last_update_ms)


def _described(found: Inconsistency) -> dict[str, Any]:
    """The members whose subscriptions differ from the others', and the differences."""
    differences = [
        {"clientId": d.client_id, "missing": list(d.missing), "extra": list(d.extra)} for d in found.differences
    ]
    return {"common": list(found.common), "differences": differences, "text": str(found)}
