"""The server: listens, and hands each request to its handler."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from ariane.env import Clock
from ariane.errors import ListenFailed
from ariane.protocol.frame_head import MAX_FRAME
from ariane.remoting.address import format_address
from ariane.remoting.admission import Admission
from ariane.remoting.connection import Connection, Handler, Listener
from ariane.remoting.endpoint import Endpoint
from ariane.remoting.gates import Gate, Observer
from ariane.remoting.guard import Limits
from ariane.remoting.incoming import ReadCycle
from ariane.remoting.limits import Refusals
from ariane.remoting.sockets import SocketOptions
from ariane.remoting.tls import TlsMode, TlsServer

PATIENCE = 3.0  # seconds that running handlers get when a server stops


class Server:
    """Listens, passes each request to the handler of its code, and sends the response.

    `cycle` is called before and after the requests of each read. Servers of one process share `admission`, which counts
    their connections, and `refusals`.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        *,
        clock: Clock,
        fallback: Handler | None = None,
        tls: TlsServer | None = None,
        gates: Sequence[Gate] = (),
        observers: Sequence[Observer] = (),
        idle_timeout: float = 120,
        on_open: Listener | None = None,
        on_close: Listener | None = None,
        cycle: ReadCycle | None = None,
        max_frame: int = MAX_FRAME,
        limits: Limits | None = None,
        admission: Admission | None = None,
        refusals: Refusals | None = None,
        sockets: SocketOptions | None = None,
        name: str = "server",
    ) -> None:
        limits = limits or Limits()
        self._endpoint = Endpoint(
            handlers,
            clock,
            fallback=fallback,
            gates=gates,
            observers=observers,
            on_open=on_open,
            on_close=on_close,
            cycle=cycle,
            throttle=True,
            max_frame=max_frame,
            idle_timeout=idle_timeout,
            limits=limits,
            admission=admission or Admission.of(limits),
            refusals=refusals,
            sockets=sockets,
            name=name,
        )
        self._tls = tls or TlsServer(TlsMode.DISABLED)
        self._listeners: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None
        self.port = 0
        """The port of the first `start`, also when the system chose it."""

    @property
    def connections(self) -> frozenset[Connection]:
        """The open connections."""
        return frozenset(self._endpoint.connections)

    @property
    def buffered(self) -> int:
        """Bytes held for peers: unfinished frames, running requests, unread answers."""
        return self._endpoint.guard.buffered

    @property
    def refusals(self) -> Refusals:
        """What the limits of the server refused."""
        return self._endpoint.refusals

    async def start(self, host: str, port: int) -> None:
        """Listen; may be called for several addresses. ListenFailed names the address that is taken.

        ConfigError when the certificates cannot be used.
        """
        self._tls.check_files()
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(
                self._accept, host or None, port, backlog=self._endpoint.sockets.backlog, reuse_address=True
            )
        except OSError as error:
            raise ListenFailed(f"cannot listen on {format_address(host or '*', port)}: {error}", port) from error
        self._listeners.append(listener)
        self.port = self.port or int(listener.sockets[0].getsockname()[1])
        if self._sweeper is None:
            self._sweeper = loop.create_task(self._endpoint.guard.watch())

    async def stop(self) -> None:
        """Stop listening, let running handlers finish, close every connection."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        await self._endpoint.finish(PATIENCE)

    def _accept(self) -> asyncio.Protocol:
        # asyncio only calls the methods; a class that does not inherit from asyncio's can be compiled
        return cast(asyncio.Protocol, Connection(self._endpoint, peek=self._tls))
