"""Servers and clients on real sockets of 127.0.0.1."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from ariane.env import SystemClock
from ariane.protocol.command import Command
from ariane.remoting import Client, Connection, Server

ECHO = 1000


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test runs on both loops: uvloop in brokers, asyncio's own in clients where uvloop is not."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def echo(_: Connection, request: Command) -> Command:
    return request.reply(0, dict(request.fields), request.body)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Start servers; they stop with the test."""
    servers: list[Server] = []

    async def start(handlers: dict[int, Any] | None = None, **options: Any) -> Server:
        server = Server({ECHO: echo} if handlers is None else handlers, **{"clock": SystemClock(), **options})
        await server.start("127.0.0.1", 0)
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def dial() -> AsyncIterator[Callable[..., Client]]:
    """Make clients; they close with the test."""
    clients: list[Client] = []

    def make(**options: Any) -> Client:
        client = Client(**{"clock": SystemClock(), **options})
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.close()


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Turn the loop until the condition holds."""
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


def at(server: Server) -> str:
    return f"127.0.0.1:{server.port}"
