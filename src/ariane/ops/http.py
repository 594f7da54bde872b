"""A small HTTP server for pages that are read by tools: one request a connection, everything bounded.

It runs on the server's own event loop: when the loop hangs, probes fail, as they should.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Final, NamedTuple

from ariane.errors import ListenFailed

LONGEST_HEAD: Final = 8192  # bytes of a request
PATIENCE: Final = 5.0  # seconds for a request to arrive
SLOWEST: Final = 30.0  # seconds for an answer to be read
MOST: Final = 64  # connections at a time; one more closes the oldest
TEXT: Final = "text/plain; charset=utf-8"


class Reply(NamedTuple):
    """A page: its status, its media type and its body, whole or in pieces."""

    status: int
    kind: str
    body: bytes | AsyncGenerator[bytes, None]


Page = Callable[[], Awaitable[Reply]]


def json_reply(status: int, value: object) -> Reply:
    """A page of JSON."""
    return Reply(status, "application/json", json.dumps(value).encode() + b"\n")


def text_reply(status: int, text: str) -> Reply:
    """A page of text."""
    return Reply(status, TEXT, f"{text}\n".encode())


class HttpServer:
    """Serves pages by their path over HTTP/1.1. Requests are bounded in size, time and number."""

    def __init__(self, pages: Mapping[str, Page], host: str, port: int) -> None:
        self._pages = pages
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, None] = {}  # the oldest first

    @property
    def port(self) -> int:
        """The port it listens on, also when the system chose it; 0 before `start`."""
        return 0 if self._server is None else int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """`host:port` for a client on this machine."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """Listen; ListenFailed when the port is taken or the address is not of this machine."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host or None, self._port, limit=LONGEST_HEAD)
        except OSError as error:
            raise ListenFailed(f"cannot listen on {self._host or '*'}:{self._port}: {error}", self._port) from error

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST:  # peers that hang must not keep a probe out: that would restart the server
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        writer.transport.set_write_buffer_limits(0)  # `drain` waits for the last byte, so that time bounds it too
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(SLOWEST):
                await self._answer(writer, head.split(b"\r\n", 1)[0])
        except (TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()  # drop unread answers from memory
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        method, _, rest = line.decode("latin-1").partition(" ")
        path, _, version = rest.partition(" ")
        if not version.startswith("HTTP/1."):
            reply = text_reply(400, "not an HTTP/1 request")
        elif method not in ("GET", "HEAD"):
            reply = text_reply(405, "only GET and HEAD")
        elif (page := self._pages.get(path.partition("?")[0])) is None:
            reply = text_reply(404, f"there are {', '.join(self._pages)}")
        else:
            reply = await page()
        body = reply.body
        if isinstance(body, bytes):
            writer.write(_head(reply, chunked=False, size=len(body)) + (b"" if method == "HEAD" else body))
            await writer.drain()
            return
        chunked = version != "HTTP/1.0"
        writer.write(_head(reply, chunked=chunked, size=None))
        if method == "GET":
            await _stream(writer, body, chunked)


async def _stream(writer: asyncio.StreamWriter, pieces: AsyncGenerator[bytes, None], chunked: bool) -> None:
    """Write a body in pieces as it is produced, no faster than the peer reads."""
    async with aclosing(pieces):
        async for piece in pieces:
            if piece:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await writer.drain()
    if chunked:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _head(reply: Reply, *, chunked: bool, size: int | None) -> bytes:
    length = "Transfer-Encoding: chunked\r\n" if chunked else "" if size is None else f"Content-Length: {size}\r\n"
    return (
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\nContent-Type: {reply.kind}\r\n{length}"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    ).encode()
