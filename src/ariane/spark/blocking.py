"""A connection to a broker without an event loop: a task of an executor does one thing, and waits for it.

Requests may be sent ahead of the answers to earlier ones; a body is received straight into its own bytes.
"""

import socket
from struct import Struct
from typing import NamedTuple

import numpy as np

from ariane.client.connect.refusals import refusal
from ariane.errors import ConnectFailed, ProtocolError, RequestTimeout, SendFailed
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command, decode_header
from ariane.protocol.frame import MAX_FRAME, encode
from ariane.protocol.headers import Header
from ariane.remoting import parse_address
from ariane.spark.access import Access

_HEAD = Struct(">iI")  # length of the frame, serialisation << 24 | length of the header
_CHUNK = 1 << 18


class Response(NamedTuple):
    """An answer and the request it is for."""

    request: Command
    command: Command
    body: memoryview


class BlockingConnection:
    """One connection, used by one thread."""

    def __init__(self, address: str, access: Access, timeout: float) -> None:
        self.address = address
        self._signer = access.signer()
        tls = access.tls_client()
        self._tls = None if tls is None else tls.layer(parse_address(address)[0])
        self._plain = bytearray()  # decrypted, not yet taken
        self._asked: dict[int, Command] = {}
        self._count = 0
        try:
            self._socket = socket.create_connection(parse_address(address), timeout)
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            self._write(self._tls.start())

    def send(self, code: RequestCode, header: Header | dict[str, str], body: bytes = b"", timeout: float = 10) -> int:
        """Send a request; the number tells its answer from others."""
        self._count += 1
        fields = header.fields() if isinstance(header, Header) else dict(header)
        command = Command(code, fields, body, opaque=self._count)
        if self._signer is not None:
            self._signer.before_request(self.address, command)
        self._socket.settimeout(timeout)
        data = encode(command)
        command.body = b""  # kept for error texts only
        self._asked[self._count] = command
        self._write(data if self._tls is None else self._tls.encrypt(data))
        return self._count

    def receive(self, timeout: float = 10) -> Response:
        """The next answer, whichever request it is for."""
        self._socket.settimeout(timeout)
        while True:
            length, mark = _HEAD.unpack(self._read(_HEAD.size))
            header_size = mark & 0xFFFFFF
            if not 4 <= length <= MAX_FRAME * 4 or header_size > length - 4:
                raise ProtocolError(f"{self.address}: bad frame: length {length}, header {header_size}")
            command = decode_header(mark >> 24, bytes(self._read(header_size)))
            body = self._read(length - 4 - header_size)
            request = self._asked.pop(command.opaque, None) if command.is_response else None
            if request is not None:  # brokers also notify clients; a reader of queues needs none of it
                return Response(request, command, body)

    def ask(
        self, code: RequestCode, header: Header | dict[str, str], body: bytes = b"", timeout: float = 10
    ) -> Response:
        """Send one request and wait for its answer, when no other is on its way; BrokerRefused if it is an error."""
        self.send(code, header, body, timeout)
        response = self.receive(timeout)
        if response.command.code != 0:
            raise refusal(self.address, response.request.code, response.command)
        return response

    def close(self) -> None:
        self._socket.close()

    def _write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise RequestTimeout(f"{self.address} does not take a request") from None
        except OSError as error:
            raise SendFailed(f"{self.address}: {error}") from error

    def _read(self, size: int) -> memoryview:
        try:
            return self._read_plain(size) if self._tls is None else self._read_tls(size)
        except TimeoutError:
            raise RequestTimeout(f"{self.address} did not answer in {self._socket.gettimeout():g} s") from None
        except OSError as error:
            raise SendFailed(f"{self.address}: {error}") from error

    def _read_plain(self, size: int) -> memoryview:
        view = np.empty(size, np.uint8).data  # not filled with zeros first
        at = 0
        while at < size:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise SendFailed(f"{self.address} closed the connection")
            at += got
        return view

    def _read_tls(self, size: int) -> memoryview:
        assert self._tls is not None
        while len(self._plain) < size:
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                raise SendFailed(f"{self.address} closed the connection")
            self._plain += self._tls.decrypt(chunk)
            if answer := self._tls.outgoing():
                self._write(answer)
        data = self._plain[:size]
        del self._plain[:size]
        return memoryview(data)


class Connections:
    """Open connections of a worker, which outlives tasks and queries. Each is in use by one task at a time."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, Access], list[BlockingConnection]] = {}

    def take(self, address: str, access: Access, timeout: float) -> BlockingConnection:
        """An idle connection, or a new one."""
        idle = self._idle.get((address, access))
        return idle.pop() if idle else BlockingConnection(address, access, timeout)

    def give(self, connection: BlockingConnection, access: Access) -> None:
        """Keep a connection on which no answer is outstanding."""
        self._idle.setdefault((connection.address, access), []).append(connection)


CONNECTIONS = Connections()
