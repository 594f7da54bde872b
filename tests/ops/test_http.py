"""The HTTP server against peers that are slow, greedy or wrong."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ariane.errors import ListenFailed
from ariane.ops import http
from ariane.ops.http import HttpServer, Reply, text_reply
from tests.ops.scraping import fetch
from tests.remoting.conftest import until


async def hello() -> Reply:
    return text_reply(200, "hello")


async def long_page() -> AsyncGenerator[bytes, None]:
    for number in range(100):
        yield b"%04d" % number * 1000
        yield b""


async def streamed() -> Reply:
    return Reply(200, "text/plain", long_page())


@asynccontextmanager
async def serving() -> AsyncIterator[HttpServer]:
    server = HttpServer({"/hello": hello, "/long": streamed}, "127.0.0.1", 0)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def ask(server: HttpServer, sent: bytes, *, end: bool = False) -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(sent)
            if end:
                writer.write_eof()
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


async def test_pages_are_found_by_path_and_others_say_what_there_is() -> None:
    async with serving() as server:
        status, headers, body = await fetch(server.address, "/hello?x=1")
        assert (status, body, headers["content-length"]) == (200, b"hello\n", "6")
        status, _, body = await fetch(server.address, "/nothing")
        assert (status, body) == (404, b"there are /hello, /long\n")
        assert (await ask(server, b"HEAD /hello HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
        assert (await ask(server, b"POST /hello HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_long_page_arrives_whole_in_both_versions_of_http(version: str) -> None:
    async with serving() as server:
        status, headers, body = await fetch(server.address, "/long", version=version)
        assert status == 200
        assert body == b"".join([b"%04d" % number * 1000 for number in range(100)])
        assert ("transfer-encoding" in headers) == (version == "1.1")


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xfe\r\n\r\n",
        b"\r\n\r\n",
        b"GET /hello\r\n\r\n",
        b"GET /hello HTTP/2\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_answered_400_or_404(sent: bytes) -> None:
    async with serving() as server:
        assert (await ask(server, sent))[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 404")
        assert (await fetch(server.address, "/hello"))[0] == 200


async def test_a_head_that_is_too_long_or_broken_off_gets_no_answer() -> None:
    async with serving() as server:
        assert await ask(server, b"G" * 100_000 + b"\r\n\r\n") == b""
        assert await ask(server, b"GET /hello HTTP/1.1\r\nHost:", end=True) == b""
        assert (await fetch(server.address, "/hello"))[0] == 200


async def test_a_peer_that_sends_nothing_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PATIENCE", 0.05)
    async with serving() as server:
        assert await ask(server, b"GET /hello") == b""


async def test_a_peer_that_does_not_read_is_closed_and_the_page_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SLOWEST", 0.2)
    given_up = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x" * 65536
        finally:
            given_up.set()

    async def page() -> Reply:
        return Reply(200, "text/plain", endless())

    server = HttpServer({"/endless": page}, "127.0.0.1", 0)
    await server.start()
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /endless HTTP/1.1\r\n\r\n")
        await asyncio.wait_for(given_up.wait(), 60)
        writer.close()
    finally:
        await server.stop()


async def test_what_is_left_of_an_answer_is_given_up_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SLOWEST", 0.2)
    asked = asyncio.Event()
    size = 50_000  # less than a transport holds back, more than these sockets take

    async def page() -> Reply:
        asked.set()
        return Reply(200, "text/plain", b"x" * size)

    server = HttpServer({"/page": page}, "127.0.0.1", 0)
    await server.start()
    assert server._server is not None
    server._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    try:
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.settimeout(60)
            peer.connect(("127.0.0.1", server.port))
            peer.sendall(b"GET /page HTTP/1.1\r\n\r\n")
            await asyncio.wait_for(asked.wait(), 60)
            await until(lambda: not server._open)
            received = 0
            with contextlib.suppress(ConnectionResetError):
                while part := await asyncio.to_thread(peer.recv, 65536):
                    received += len(part)
            assert received < size
    finally:
        await server.stop()


async def test_peers_that_hang_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST", 3)
    async with serving() as server:
        waiting = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
        await until(lambda: len(server._open) == 3)
        assert (await ask(server, b"GET /hello HTTP/1.1\r\n\r\n")).endswith(b"hello\n")
        answered = 0
        for reader, writer in waiting:
            writer.write(b"GET /hello HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                answered += (await asyncio.wait_for(reader.read(), 60)).endswith(b"hello\n")
            writer.close()
        assert answered == 2  # the oldest made room


async def test_a_taken_port_is_an_error_that_names_it() -> None:
    async with serving() as server:
        second = HttpServer({}, "127.0.0.1", server.port)
        with pytest.raises(ListenFailed, match=f"cannot listen on 127.0.0.1:{server.port}"):
            await second.start()
        await second.stop()
