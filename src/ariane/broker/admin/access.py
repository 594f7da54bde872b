"""Requests about access control, on a broker that has none."""

from __future__ import annotations

from ariane.errors import ResponseError
from ariane.protocol.command import Command
from ariane.protocol.headers import Header
from ariane.remoting import Connection, Handler

OFF = "access control is off on this broker: aclEnable is false"


def access_is_off(code: int, header: type[Header] | None = None) -> Handler:
    """A handler that answers with an error. Apache's broker does not answer the two queries at all."""

    def handler(_: Connection, request: Command) -> Command:
        if header is not None:
            header.parse(request.fields)
        raise ResponseError(code, OFF)

    return handler
