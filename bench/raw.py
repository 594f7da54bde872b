"""A client that costs next to nothing: frames made beforehand, answers counted and thrown away."""

import asyncio
from struct import Struct
from typing import cast

from ariane.protocol.command import JSON, decode_header

_LENGTH = Struct(">i")


class RawConnection(asyncio.Protocol):
    """Sends chunks of frames and keeps a window of unanswered requests."""

    def __init__(self) -> None:
        self.unanswered = 0
        self.failed = 0
        self._rest = b""
        self._due: asyncio.Future[None] | None = None
        self._room = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._due is not None and not self._due.done():
            self._due.set_exception(ConnectionError(f"the broker closed the connection: {error}"))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at, size = 0, len(data)
        while size - at >= 4:
            end = at + 4 + _LENGTH.unpack_from(data, at)[0]
            if end > size:
                break
            self.unanswered -= 1
            if data.find(b'"code":0,', at + 8, at + 32) < 0:
                self._look(data[at:end])
            at = end
        self._rest = data[at:]
        if self._due is not None and self.unanswered <= self._room and not self._due.done():
            self._due.set_result(None)

    def _look(self, frame: bytes) -> None:
        answer = decode_header(JSON, frame[8 : 8 + int.from_bytes(frame[5:8], "big")])
        if answer.code != 0:
            self.failed += 1

    def send(self, chunk: bytes, requests: int) -> None:
        self.unanswered += requests
        self._transport.write(chunk)

    async def until(self, room: int) -> None:
        """Wait until at most `room` requests are unanswered."""
        if self.unanswered > room:
            self._room = room
            self._due = asyncio.get_running_loop().create_future()
            await asyncio.wait_for(self._due, 60)
            self._due = None

    def close(self) -> None:
        self._transport.close()


async def connect(address: str) -> RawConnection:
    """An open connection to `host:port`."""
    host, _, port = address.rpartition(":")
    _, protocol = await asyncio.get_running_loop().create_connection(RawConnection, host, int(port))
    return protocol


async def pump(connections: list[RawConnection], chunks: list[bytes], requests: int, total: int) -> int:
    """Send `total` chunks in turn over the connections, a few ahead of the answers on each; returns the failures."""
    ahead = max(1, 8 // len(connections)) * requests
    for number in range(total):
        connection = connections[number % len(connections)]
        await connection.until(ahead - requests)
        connection.send(chunks[number % len(chunks)], requests)
    for connection in connections:
        await connection.until(0)
    return sum(connection.failed for connection in connections)
