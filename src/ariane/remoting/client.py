"""The client: one connection per address, shared by all requests in flight."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from ariane.env import Clock
from ariane.errors import ConnectFailed, ProtocolError, RequestTimeout
from ariane.protocol.command import Command
from ariane.protocol.frame_head import MAX_FRAME
from ariane.remoting.address import parse_address
from ariane.remoting.connection import Connection, Handler, Listener
from ariane.remoting.endpoint import Endpoint
from ariane.remoting.gates import RpcHook
from ariane.remoting.tls import TlsClient

PATIENCE = 1.0  # seconds that running handlers get when a client closes


class Client:
    """Sends requests to addresses; connects on demand, and again after a connection was lost."""

    def __init__(
        self,
        *,
        clock: Clock,
        handlers: Mapping[int, Handler] | None = None,
        hooks: Sequence[RpcHook] = (),
        tls: TlsClient | None = None,
        connect_timeout: float = 3.0,
        idle_timeout: float = 120,
        on_close: Listener | None = None,
        max_frame: int = MAX_FRAME,
        name: str = "client",
    ) -> None:
        self._endpoint = Endpoint(
            handlers or {},
            clock,
            hooks_out=hooks,
            on_close=on_close,
            max_frame=max_frame,
            idle_timeout=idle_timeout,
            name=name,
        )
        self._clock = clock
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._connections: dict[str, Connection] = {}
        self._dialling: dict[str, asyncio.Task[Connection]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._closed = False

    async def request(self, address: str, command: Command, timeout: float) -> Command:
        """Send a request and wait for its response: ConnectFailed, SendFailed or RequestTimeout when there is none."""
        started = self._clock.monotonic()
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = await self._connection_within(address, timeout)
        left = timeout - (self._clock.monotonic() - started)
        if left <= 0:
            raise RequestTimeout(f"{address}: connecting took all of the {timeout:g} s allowed")
        try:
            return await connection.request(command, left)
        except RequestTimeout:
            if connection.last_read < started:  # no bytes received since the request: the peer may be gone
                connection.close(f"silent for {timeout:g} s")
            raise

    async def oneway(self, address: str, command: Command) -> None:
        """Send a request without a response; waits while the peer does not keep up."""
        connection = await self.connection(address)
        connection.oneway(command)
        await connection.drain()

    def clear_connection(self, address: str) -> Connection | None:
        """A connection on which an encoded request can be sent at once, without hooks; may be called in any thread."""
        connection = self._connections.get(address)
        return connection if connection is not None and connection.is_clear else None

    async def connection(self, address: str) -> Connection:
        """The connection to an address, opened if necessary; ConnectFailed names the address and the reason."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        if self._closed:
            raise ConnectFailed(f"{address}: the client is closed")
        dialling = self._dialling.get(address)
        if dialling is None:
            dialling = asyncio.get_running_loop().create_task(self._dial(address))
            dialling.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # perhaps no caller is left to retrieve the exception
            self._dialling[address] = dialling
        try:
            return await asyncio.shield(dialling)
        except asyncio.CancelledError:
            if self._closed and dialling.cancelled():  # the client was closed, the caller was not cancelled
                raise ConnectFailed(f"{address}: the client is closed") from None
            raise

    async def _connection_within(self, address: str, timeout: float) -> Connection:
        try:
            async with asyncio.timeout(timeout):
                return await self.connection(address)
        except TimeoutError:
            raise ConnectFailed(f"cannot connect to {address}: no answer in {timeout:g} s") from None

    def drop(self, address: str, reason: str) -> None:
        """Close the connection to an address, if there is one."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close(reason)

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        self._closed = True
        for dialling in list(self._dialling.values()):
            dialling.cancel()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        await self._endpoint.finish(PATIENCE)
        self._connections.clear()

    async def _dial(self, address: str) -> Connection:
        try:
            connection = await self._open(address)
        finally:
            self._dialling.pop(address, None)
        self._connections[address] = connection
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._endpoint.guard.watch())
        return connection

    async def _open(self, address: str) -> Connection:
        host, port = parse_address(address)
        connection = self._new_connection(address, host)
        protocol = cast(asyncio.Protocol, connection)
        try:
            async with asyncio.timeout(self._connect_timeout):
                await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
        except TimeoutError:
            raise ConnectFailed(f"cannot connect to {address}: no answer in {self._connect_timeout:g} s") from None
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(f"cannot connect to {address}: {error}") from error
        return connection

    def _new_connection(self, address: str, host: str) -> Connection:
        try:
            connection = Connection(self._endpoint, tls=self._tls.layer(host) if self._tls else None)
        except ProtocolError as error:
            raise ConnectFailed(f"cannot connect to {address}: {error}") from None
        connection.address = address
        return connection
