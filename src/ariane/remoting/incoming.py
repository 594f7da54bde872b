"""The receiving side of a connection: whole commands are handled in read cycles, one after the other.

Asynchronous handlers run concurrently; reading stops while too many of them run, or while the peer does not read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from ariane.env import Clock
from ariane.errors import ArianeError, ProtocolError, ResponseError
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import RESPONSE, Command
from ariane.protocol.frame import FrameDecoder
from ariane.remoting.gates import Gate, Observer, Peer
from ariane.remoting.limited_log import LimitedLog, clip
from ariane.remoting.limits import LimitExceeded, Refusals
from ariane.remoting.outgoing import Outgoing
from ariane.remoting.waiters import Waiters

SOON: Final = 1 << 15  # bytes of requests after which responses are written before the rest is handled
MAX_RUNNING: Final = 8192  # requests of one connection that may run at the same time
MAX_RUNNING_BYTES: Final = 1 << 25  # of their bodies
LONGEST_REMARK: Final = 4000  # characters of a refusal: it may quote what the peer sent

Result = Command | Awaitable[Command | None] | None


class ReadCycle(Protocol):
    """Called around the requests of one read: `begin` before the first, `end` after the last, then answers are sent.

    A long read is split into several cycles. Asynchronous handlers continue outside of any cycle.
    """

    def begin(self, now: float) -> None:
        """Begin a cycle at this time of the monotonic clock."""
        ...

    def end(self) -> None:
        """End a cycle: all requests were handled, and none of their answers was written."""
        ...


class Link(Peer, Protocol):
    """The connection that requests come on."""

    def answer(self, request: Command, response: Command) -> None: ...

    def refuse(self, reason: str) -> None:
        """Close the connection of a peer that breaks the protocol."""
        ...

    def weigh(self) -> None:
        """Count the memory that the connection holds."""
        ...


class Serving(Protocol):
    """The owner of the handlers: a server, or a client for requests that a server sends to it."""

    name: str
    clock: Clock
    handlers: Mapping[int, Callable[[Any, Command], Result]]
    fallback: Callable[[Any, Command], Result]
    gates: tuple[Gate, ...]
    observers: tuple[Observer, ...]
    cycle: ReadCycle | None
    throttle: bool
    tasks: set[asyncio.Task[None]]
    log: LimitedLog
    refusals: Refusals


class Incoming:
    """Commands as they arrive, their handlers, and the requests that are still running."""

    def __init__(self, owner: Serving, link: Link, decoder: FrameDecoder, outgoing: Outgoing) -> None:
        self.stalled = False
        """Whether reading is stopped."""
        self.running_bytes = 0
        """Bytes of the bodies of requests that still run."""
        self._owner = owner
        self._link = link
        self._decoder = decoder
        self._outgoing = outgoing
        self._clock = owner.clock
        self._handlers = owner.handlers
        self._code = -1
        self._handler = owner.fallback  # of the last request's code
        self._gates = owner.gates
        self._observers = owner.observers
        self._is_guarded = bool(owner.gates or owner.observers)
        self._commands: list[Command] = []  # commands of a read, handled up to `_next`
        self._next = 0
        self._running = 0
        self._quiet = False
        self._waiters = Waiters(owner.clock, "")

    def open(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, waiters: Waiters) -> None:
        """Read from this transport; responses go to these waiters."""
        self._transport = transport
        self._loop = loop
        self._waiters = waiters

    def work(self, now: float) -> None:
        """Handle every whole command at hand in read cycles, each of which ends before its answers are written."""
        cycle, outgoing = self._owner.cycle, self._outgoing
        handled = False
        taken = 0
        outgoing.in_cycle = True
        try:
            while not self.stalled:
                if self._next >= len(self._commands):
                    self._commands = self._decoder.take()
                    self._next = 0
                    if not self._commands:
                        break
                command = self._commands[self._next]
                self._next += 1
                taken += len(command.body)
                if not handled:
                    handled = True
                    if cycle is not None:
                        cycle.begin(now)
                self._handle(command)
                if taken >= SOON or outgoing.size >= outgoing.limit:
                    self._end_cycle()
                    handled = False
                    taken = 0
                    now = self._clock.monotonic()
        except ProtocolError as error:
            self._link.refuse(str(error))
        finally:
            outgoing.in_cycle = False
        if handled:
            self._end_cycle()

    def _end_cycle(self) -> None:
        if self._owner.cycle is not None:
            self._owner.cycle.end()
        self._outgoing.write()

    def _handle(self, command: Command) -> None:
        if command.flag & RESPONSE:
            self._waiters.answer(command)
            return
        if command.code != self._code:
            self._handler = self._handlers.get(command.code, self._owner.fallback)
            self._code = command.code
        handler = self._handler
        try:
            if self._is_guarded:
                self._admit(command)
            result = handler(self._link, command)
            if result is None:
                return
            if isinstance(result, Command):
                self._link.answer(command, result)
            else:
                self._follow(command, result)
        except Exception as error:
            self._answer_error(command, error)

    def _admit(self, request: Command) -> None:
        """Show a request to the observers, then ask the gates; one that refuses raises."""
        for observer in self._observers:
            try:
                observer.requested(self._link, request)
            except Exception as error:
                self._owner.log.fault(error, "%s: an observer of requests failed", self._owner.name)
        for gate in self._gates:
            gate.check(self._link, request)

    def _answer_error(self, request: Command, error: Exception) -> None:
        if isinstance(error, ResponseError):
            if isinstance(error, LimitExceeded):
                self._owner.refusals.count(error.reason)
            self._link.answer(request, request.reply(error.code, remark=clip(error.remark, LONGEST_REMARK)))
            return
        remark = type(error).__name__
        if isinstance(error, ArianeError):  # its text is for the peer; any other exception is a bug here
            remark = clip(str(error))
            text = "%s: request %d of %s failed: %s"
            self._owner.log.warning(text, self._owner.name, request.code, self._link.peer, remark)
        else:
            text = "%s: request %d of %s failed"
            self._owner.log.fault(error, text, self._owner.name, request.code, self._link.peer)
        self._link.answer(request, request.reply(ResponseCode.SYSTEM_ERROR, remark=remark))

    # Asynchronous handlers.

    def _follow(self, request: Command, result: Awaitable[Command | None]) -> None:
        size = len(request.body)
        task = self._loop.create_task(self._finish(request, result, size))
        self._owner.tasks.add(task)
        task.add_done_callback(self._owner.tasks.discard)
        self._running += 1
        self.running_bytes += size
        if self._is_busy():
            self.stall()

    async def _finish(self, request: Command, result: Awaitable[Command | None], size: int) -> None:
        try:
            response = await result
            if response is not None:
                self._link.answer(request, response)
        except Exception as error:
            self._answer_error(request, error)
        finally:
            self._running -= 1
            self.running_bytes -= size
            self._link.weigh()
            self.resume()

    # Back-pressure.

    def stall(self) -> None:
        """Stop reading."""
        if not self.stalled and self._outgoing.is_open:
            self.stalled = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again, unless there is another reason not to."""
        must_stall = self._quiet or self._is_busy() or (self._outgoing.congested and self._owner.throttle)
        if self.stalled and not must_stall:
            self.stalled = False
            self._loop.call_soon(self._catch_up)

    def _is_busy(self) -> bool:
        return self._running >= MAX_RUNNING or self.running_bytes >= MAX_RUNNING_BYTES

    def _catch_up(self) -> None:
        """Handle the requests that waited while reading was stopped, then continue to read."""
        if self._outgoing.is_open and not self.stalled:
            self.work(self._clock.monotonic())
        if self._outgoing.is_open and not self.stalled:
            self._transport.resume_reading()

    def quiet(self) -> None:
        """Accept no more requests; those that run are still answered."""
        self._quiet = True
        self.stall()

    def finish(self) -> None:
        """The peer is gone: handle the complete requests received before, although no response can be sent."""
        if self.stalled:
            self.stalled = False
            self.work(self._clock.monotonic())

    def clear(self) -> None:
        """Drop what has arrived."""
        self._decoder.clear()
        self._commands = []
        self._next = 0
