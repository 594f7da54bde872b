"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: messages by key and by where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.errors import ResponseError
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import QueryMessageRequest, QueryMessageResponse, ViewMessageRequest
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

UNIQUE_KEY_FLAG = "_UNIQUE_KEY_QUERY"  # the field by which a client says that its key is a message id


class QueryHandler:
    """Finds single messages."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store

    def by_key(self, connection: Connection, request: Command) -> Command | None:
        """Messages with a key, newest first; a key that is a unique id gets as many as a broker looks at for one."""
        h = QueryMessageRequest.parse(request.fields)
        unique = request.fields.get(UNIQUE_KEY_FLAG, "").lower() == "true"
        most = self._broker.options.default_query_max_num if unique else h.max_num
        found = self._store.query(h.topic, h.key, most, h.begin_timestamp, h.end_timestamp)
        fields = QueryMessageResponse(found.last_update_time, found.last_update_offset).fields()
        if not found.slices:
            remark = "can not find message, maybe time range not correct"
            return request.reply(ResponseCode.QUERY_NOT_FOUND, fields, remark=remark)
        size = sum(len(part) for part in found.slices)
        connection.send_parts(request.reply(fields=fields), found.slices, size)
        return None

    def by_offset(self, connection: Connection, request: Command) -> Command | None:
        """The message that begins at a place of the log."""
        h = ViewMessageRequest.parse(request.fields)
        if self._store.unit_at(h.offset) is None:
            remark = f"can not find message by the offset, {h.offset}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        found = self._store.slice_at(h.offset)
        assert found is not None  # there is a unit
        connection.send_parts(request.reply(), [found], len(found))
        return None


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = QueryHandler(broker)
    return {RequestCode.QUERY_MESSAGE: handler.by_key, RequestCode.VIEW_MESSAGE_BY_ID: handler.by_offset}
