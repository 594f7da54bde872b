"""Messages by key and by log offset."""

from __future__ import annotations

from typing import Final

from ariane.broker.config.live import LiveOptions
from ariane.errors import ResponseError
from ariane.message import KEYS, UNIQUE_KEY, UNIQUE_KEY_QUERY
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import QueryMessageRequest, QueryMessageResponse, ViewMessageRequest
from ariane.protocol.properties import find_property
from ariane.protocol.units import decode_unit
from ariane.remoting import Connection
from ariane.store import MessageStore

_HEADER: Final = 1 << 10  # bytes of a response before its body, or a little less


class AdminQueriesHandler:
    """QUERY_MESSAGE and VIEW_MESSAGE_BY_ID."""

    def __init__(self, store: MessageStore, options: LiveOptions) -> None:
        self._store = store
        self._options = options

    def by_key(self, _: Connection, request: Command) -> Command:
        """QUERY_MESSAGE: the newest messages of a topic with a key in a range of store times that fit into a frame."""
        header = QueryMessageRequest.parse(request.fields)
        most = header.max_num
        if request.fields.get(UNIQUE_KEY_QUERY) == "true":
            most = self._options.current.default_query_max_num
        found = self._store.query(header.topic, header.key, max(most, 0), header.begin_timestamp, header.end_timestamp)
        fields = QueryMessageResponse(found.last_update_time, found.last_update_offset).fields()
        slices: list[memoryview] = []
        room = self._options.current.frame_max_length - _HEADER
        for part in found.slices:
            if _has_key(part, header.topic.encode(), header.key.encode()):
                room -= len(part)
                if room < 0 and slices:  # clients close the connection at a longer frame
                    break
                slices.append(part)
        if slices:
            return request.reply(0, fields, b"".join(slices))
        remark = "can not find message, maybe time range not correct"
        return request.reply(ResponseCode.QUERY_NOT_FOUND, fields, remark=remark)

    def by_place(self, _: Connection, request: Command) -> Command:
        """VIEW_MESSAGE_BY_ID: the message at a log offset."""
        offset = ViewMessageRequest.parse(request.fields).offset
        store = self._store
        found = store.slice_at(offset) if store.message_at(offset) is not None else None
        if found is None:
            remark = f"can not find message by the offset, {offset}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return request.reply(body=bytes(found))


def _has_key(stored: memoryview, topic: bytes, key: bytes) -> bool:
    """Whether a message has the topic and the key: the index holds only their hash."""
    unit = decode_unit(stored)
    if unit.topic != topic:
        return False
    keys = find_property(unit.properties, KEYS.encode()) or b""
    return key in keys.split() or find_property(unit.properties, UNIQUE_KEY.encode()) == key
