"""State shared by all connections of one server or client."""

import asyncio
import itertools
import logging
from collections.abc import Mapping, Sequence

from ariane.env import Clock
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.frame_head import MAX_FRAME
from ariane.remoting.address import parse_address
from ariane.remoting.admission import Admission
from ariane.remoting.connection import Connection, Handler, Listener
from ariane.remoting.gates import Gate, Observer, RpcHook
from ariane.remoting.guard import Guard, Limits
from ariane.remoting.incoming import ReadCycle
from ariane.remoting.limited_log import LimitedLog
from ariane.remoting.limits import Refusals
from ariane.remoting.sockets import SocketOptions

log = logging.getLogger("ariane.remoting")


def not_supported(_: Connection, request: Command) -> Command:
    """The response to a code without a handler; the blank in front is RocketMQ's."""
    remark = f" request type {request.code} not supported"
    return request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


class Endpoint:
    """Handlers, gates, observers, hooks and the open connections of one server or client."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        clock: Clock,
        *,
        fallback: Handler | None = None,
        gates: Sequence[Gate] = (),
        observers: Sequence[Observer] = (),
        hooks_out: Sequence[RpcHook] = (),
        on_open: Listener | None = None,
        on_close: Listener | None = None,
        cycle: ReadCycle | None = None,
        throttle: bool = False,
        max_frame: int = MAX_FRAME,
        idle_timeout: float = 120,
        limits: Limits | None = None,
        admission: Admission | None = None,
        refusals: Refusals | None = None,
        sockets: SocketOptions | None = None,
        name: str = "remoting",
    ) -> None:
        self.handlers = handlers
        self.clock = clock
        self.fallback: Handler = fallback or not_supported
        self.gates = tuple(gates)
        self.observers = tuple(observers)
        self.hooks_out = tuple(hooks_out)
        self.on_open = on_open
        self.on_close = on_close
        self.cycle = cycle
        self.throttle = throttle
        """Stop reading from a peer that does not read. Only servers do: if both sides did, both might wait forever."""
        self.max_frame = max_frame
        self.sockets = sockets or SocketOptions()
        self.name = name
        self.connections: set[Connection] = set()
        self.log = LimitedLog(log, clock)
        self.refusals = refusals or Refusals()
        self.guard = Guard(self.connections, clock, self.log, name, idle_timeout, self.refusals)
        self._admission = admission
        if limits is not None:
            self.guard.limit(limits, max_frame)
        self.tasks: set[asyncio.Task[None]] = set()
        self._opaque = itertools.count(1)
        self._closing: asyncio.Future[None] | None = None

    def next_opaque(self) -> int:
        """The number of the next request."""
        return next(self._opaque) & 0x7FFFFFFF

    def opened(self, connection: Connection) -> None:
        """Take in a new connection, or close it when there are too many."""
        if self._admission is not None:
            reason = self._admission.enter(_host(connection))
            if reason is not None:
                self.refusals.count(reason)
                self.log.warning("%s: closing %s: too many connections (%s)", self.name, connection.peer, reason)
                connection.drop()
                return
        self.connections.add(connection)
        if self.on_open is not None:
            self.on_open(connection)

    def lost(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        if connection not in self.connections:
            return  # it was refused
        self.connections.discard(connection)
        if self._admission is not None:
            self._admission.leave(_host(connection))
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)
        if self.on_close is not None:
            self.on_close(connection)

    async def finish(self, patience: float) -> None:
        """Accept no more requests, wait at most `patience` seconds for running ones, close every connection."""
        for connection in list(self.connections):
            connection.quiet()
        running = set(self.tasks)
        if running:
            _, late = await asyncio.wait(running, timeout=patience)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in list(self.connections):
            connection.close("shutting down")
        await self._until_closed(patience)

    async def _until_closed(self, patience: float) -> None:
        """Wait until the last responses are written, at most `patience` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while self.connections and loop.time() < deadline:
            self._closing = loop.create_future()
            await asyncio.wait([self._closing], timeout=deadline - loop.time())
        for connection in list(self.connections):
            connection.abort()


def _host(connection: Connection) -> str:
    return parse_address(connection.peer)[0]
