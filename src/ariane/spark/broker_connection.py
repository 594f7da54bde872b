"""Requests of a Spark task to a broker: a task does one thing, and waits for it.

Requests may be sent ahead of the responses to earlier ones; a large body is received straight into its own memory.
"""

from typing import NamedTuple

import numpy as np

from ariane.client.connect.refusals import refusal
from ariane.env import SystemClock
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.frame import encode
from ariane.protocol.frame_head import MAX_FRAME
from ariane.protocol.headers import Header
from ariane.remoting.blocking import BlockingConnection
from ariane.spark.access import Access


class Response(NamedTuple):
    """A response and the request it is for."""

    request: Command
    command: Command
    body: memoryview


def _allocate(size: int) -> memoryview:
    return np.empty(size, np.uint8).data  # unlike a bytearray not filled with zeros first


class BrokerConnection:
    """A connection to a broker with signed requests, used by one thread."""

    def __init__(self, address: str, access: Access, timeout: float) -> None:
        self.address = address
        self._signer = access.signer()
        self._asked: dict[int, Command] = {}
        self._count = 0
        self._connection = BlockingConnection(
            address, SystemClock(), timeout, tls=access.tls_client(), max_frame=4 * MAX_FRAME, allocate=_allocate
        )

    def send(self, code: RequestCode, header: Header | dict[str, str], body: bytes = b"", timeout: float = 10) -> int:
        """Send a request; the number tells its response from others."""
        self._count += 1
        fields = header.fields() if isinstance(header, Header) else dict(header)
        command = Command(code, fields, body, opaque=self._count)
        if self._signer is not None:
            self._signer.before_request(self.address, command)
        frame = encode(command)
        command.body = b""  # kept for error texts only
        self._asked[self._count] = command
        self._connection.send(frame, timeout)
        return self._count

    def receive(self, timeout: float = 10) -> Response:
        """The next response, whichever request it is for."""
        while True:
            command, body = self._connection.receive(timeout)
            request = self._asked.pop(command.opaque, None) if command.is_response else None
            if request is not None:  # brokers also notify clients; a reader of queues needs none of it
                return Response(request, command, body)

    def ask(
        self, code: RequestCode, header: Header | dict[str, str], body: bytes = b"", timeout: float = 10
    ) -> Response:
        """Send one request and wait for its response, when no other is outstanding; BrokerRefused if it is an error."""
        self.send(code, header, body, timeout)
        response = self.receive(timeout)
        if response.command.code != 0:
            raise refusal(self.address, response.request.code, response.command)
        return response

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Connections:
    """Open connections of a worker, which outlives tasks and queries. Each is in use by one task at a time."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, Access], list[BrokerConnection]] = {}

    def take(self, address: str, access: Access, timeout: float) -> BrokerConnection:
        """An idle connection, or a new one."""
        idle = self._idle.get((address, access))
        return idle.pop() if idle else BrokerConnection(address, access, timeout)

    def give(self, connection: BrokerConnection, access: Access) -> None:
        """Keep a connection on which no response is outstanding."""
        self._idle.setdefault((connection.address, access), []).append(connection)


CONNECTIONS = Connections()
