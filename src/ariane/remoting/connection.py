"""One socket: requests and responses in both directions.

A read: bytes arrive, whole commands are decoded, their handlers run in order, one write sends all their responses.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from ariane.env import Clock
from ariane.errors import ArianeError, ProtocolError, RequestTimeout, ResponseError, SendFailed
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import ONEWAY, RESPONSE, Command
from ariane.protocol.frame import FrameDecoder, decode_head, encode, encode_head
from ariane.protocol.frame_head import read_head
from ariane.protocol.ids import pack_host
from ariane.remoting.address import format_address, socket_address
from ariane.remoting.gates import Gate, Observer, RpcHook
from ariane.remoting.guard import SLOWEST, Guard
from ariane.remoting.limited_log import LimitedLog, clip
from ariane.remoting.sockets import SocketOptions
from ariane.remoting.tls import TlsLayer, TlsServer, is_client_hello
from ariane.remoting.waiters import Answer, Waiters

log: Final = logging.getLogger("ariane.remoting")

Handler = Callable[["Connection", Command], Command | Awaitable[Command | None] | None]
Listener = Callable[["Connection"], None]

JOIN_BELOW: Final = 1 << 16  # below this size one joined write is faster than a vector of buffers
SOON: Final = 1 << 15  # after so many bytes of requests their responses are written before the rest is handled
MAX_RUNNING: Final = 8192  # requests of one connection that may run at the same time
MAX_RUNNING_BYTES: Final = 1 << 25  # of their bodies
LONGEST_REMARK: Final = 4000  # characters of a refusal: it may quote what the peer sent
SMALL: Final = 1 << 13  # bytes that a connection may hold without being counted


class ReadCycle(Protocol):
    """What surrounds the requests of one read: `begin` before the first, `end` after the last, then answers leave.

    A long read is cut into several cycles. Handlers that take time continue outside of any cycle.
    """

    def begin(self, now: float) -> None:
        """Requests follow, handled at this time of the monotonic clock."""
        ...

    def end(self) -> None:
        """All of them were handled, and none of their answers was written."""
        ...


class Owner(Protocol):
    """What a connection needs of the server or client that it belongs to."""

    name: str
    clock: Clock
    handlers: Mapping[int, Handler]
    fallback: Handler
    gates: tuple[Gate, ...]
    observers: tuple[Observer, ...]
    hooks_out: tuple[RpcHook, ...]
    cycle: ReadCycle | None
    throttle: bool
    max_frame: int
    sockets: SocketOptions
    tasks: set[asyncio.Task[None]]
    log: LimitedLog
    guard: Guard

    def next_opaque(self) -> int: ...

    def opened(self, connection: "Connection") -> None: ...

    def lost(self, connection: "Connection") -> None: ...


class Connection:
    """One open socket of a server or a client; asyncio calls it as its protocol."""

    def __init__(self, owner: Owner, *, tls: TlsLayer | None = None, peek: TlsServer | None = None) -> None:
        self.peer = ""
        self.peer_host = b""
        self.local = ""
        self.address = ""
        """The address that the client connected to; on a server the same as `peer`."""
        self.is_open = False
        self.secure = tls is not None
        self.attributes: dict[str, Any] = {}
        self.last_active = owner.clock.monotonic()
        self.last_read = self.last_active
        self._owner = owner
        self._clock = owner.clock
        self._handlers = owner.handlers
        self._code = -1
        self._handler = owner.fallback  # of the last request's code
        self._gates = owner.gates
        self._observers = owner.observers
        self._is_guarded = bool(owner.gates or owner.observers)
        self._is_observed = bool(owner.observers)
        self._tls = tls
        self._peek = peek
        self._raw = tls is not None or peek is not None
        self._decoder = FrameDecoder(owner.max_frame)
        self._commands: list[Command] = []  # those of a read, done up to `_next`
        self._next = 0
        self._waiters = Waiters(owner.clock, "")
        self._out: list[bytes | memoryview] = []
        self._out_size = 0
        self._limit = owner.sockets.limit
        self._reading = False
        self._flush_due = False
        self._congested = False
        self._stalled = False
        self._quiet = False
        self._refused = False
        self._running = 0
        self._running_size = 0
        self.held = 0
        """Bytes of memory that were counted for this connection: an unfinished frame, running requests, answers."""
        self._unfinished = -1  # which frame was unfinished when the guard last looked
        self._unfinished_since = 0.0
        self._pending_seen = 0
        self._looked_at = 0.0
        self._congested_since = 0.0
        self._unread = 0  # most bytes that waited for the peer to read them, since it stopped
        self._closed_at = 0.0
        self._drained: asyncio.Future[None] | None = None
        self._why = ""

    # Called by asyncio.

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        host, port = socket_address(transport.get_extra_info("peername"))
        self.peer = format_address(host, port)
        self.peer_host = pack_host(host, port)
        self.local = format_address(*socket_address(transport.get_extra_info("sockname")))
        self.address = self.address or self.peer
        self._waiters = Waiters(self._clock, self.address)
        self._owner.sockets.apply(transport)
        self.is_open = True
        self._owner.opened(self)
        if self._tls is not None:
            self._transport.write(self._tls.start())

    def data_received(self, data: bytes) -> None:
        now = self._clock.monotonic()
        self.last_read = now
        if self._raw:
            data = self._unwrap(data)
        if data:
            self.last_active = now
            self._decoder.feed(data)
            if not self._stalled:
                self._work(now)
            if self.held or self._decoder.pending + self._running_size > SMALL:
                self._weigh()
        if self._raw and self._tls is not None and self._tls.finished:
            self.close("closed by the peer")

    def eof_received(self) -> bool:
        self._why = self._why or "closed by the peer"
        self._flush()  # a peer that has closed its sending side may still read
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._congested = False
        self._why = self._why or (str(error) if error else "closed by the peer")
        self._waiters.fail(f"the connection to {self.address} is gone: {self._why}")
        self._release_senders()
        try:
            if self._stalled and not self._refused:
                self._stalled = False
                self._work(self._clock.monotonic())  # handle what arrived whole, though no response can be sent
        finally:
            self._decoder.clear()
            self._weigh()
            self._owner.lost(self)

    def pause_writing(self) -> None:
        self._congested = True
        self._congested_since = self._clock.monotonic()
        self._unread = 0
        if self._owner.throttle:
            self._stall()

    def resume_writing(self) -> None:
        self._congested = False
        self._weigh()
        self._release_senders()
        self._resume()

    # Called by handlers and clients.

    def send(self, command: Command) -> None:
        """Write a command; dropped when the peer is gone. All commands of one turn of the loop leave in one write."""
        if not self.is_open:
            return
        if len(command.body) >= JOIN_BELOW:
            self._put_parts(encode_head(command, len(command.body)), [memoryview(command.body)], len(command.body))
            return
        self._put(encode(command))

    def answer(self, request: Command, response: Command) -> None:
        """Send the response to a request, unless it was one-way."""
        if request.flag & ONEWAY:
            return
        if self._is_observed:
            self._observe_response(request, response, len(response.body))
        self.send(response)

    def answer_encoded(self, request: Command, frame: bytes) -> None:
        """Like `answer`, for a response that is already a frame."""
        if request.flag & ONEWAY:
            return
        if self._is_observed:
            self._observe_response(request, decode_head(frame), read_head(frame, len(frame))[2])
        self._put(frame)

    def answer_parts(self, request: Command, response: Command, parts: list[memoryview], length: int) -> None:
        """Like `answer`, for a body of `length` bytes that is sent from where it is stored."""
        if request.flag & ONEWAY:
            return
        if self._is_observed:
            self._observe_response(request, response, length)
        self._put_parts(encode_head(response, length), parts, length)

    def answer_encoded_parts(self, request: Command, head: bytes, parts: list[memoryview], length: int) -> None:
        """Like `answer_parts`, when everything before the body is already encoded."""
        if request.flag & ONEWAY:
            return
        if self._is_observed:
            self._observe_response(request, decode_head(head), length)
        self._put_parts(head, parts, length)

    def submit(self, command: Command, timeout: float) -> asyncio.Future[Command]:
        """Send a request now; the future is its response."""
        self._check_open()
        command.opaque = self._owner.next_opaque()
        for hook in self._owner.hooks_out:
            hook.before_request(self.address, command)
        future = self._waiters.add(command.opaque, timeout)
        self.send(command)
        return future

    @property
    def is_clear(self) -> bool:
        """Whether an encoded request can be sent at once: open, not congested, and without hooks."""
        return self.is_open and not self._congested and not self._owner.hooks_out

    def next_opaque(self) -> int:
        """The opaque for the next encoded request; may be called in any thread."""
        return self._owner.next_opaque()

    def submit_encoded(self, data: bytes, opaque: int, timeout: float, answer: Answer) -> None:
        """Send an encoded request. Hooks do not see it, so check `is_clear` first."""
        if not self.is_open:
            answer.set_exception(SendFailed(f"the connection to {self.address} is gone: {self._why or 'closed'}"))
            return
        self._waiters.put(opaque, timeout, answer)
        self._put(data)

    def forget(self, opaque: int) -> None:
        """Drop a pending request: its response is not wanted any more."""
        self._waiters.forget(opaque)

    async def request(self, command: Command, timeout: float) -> Command:
        """Send a request and wait for its response: RequestTimeout or SendFailed when there is none.

        A response with an error code is returned, not raised: the caller decides what it means.
        """
        if self._congested:
            await self._drain_within(timeout)
        future = self.submit(command, timeout)
        try:
            response = await future
        finally:
            self._waiters.forget(command.opaque)
        for hook in self._owner.hooks_out:
            hook.after_response(self.address, command, response)
        return response

    def oneway(self, command: Command) -> None:
        """Send a request without a response. `drain` waits until the peer keeps up."""
        self._check_open()
        command.flag |= ONEWAY
        command.opaque = self._owner.next_opaque()
        for hook in self._owner.hooks_out:
            hook.before_request(self.address, command)
        self.send(command)

    async def drain(self) -> None:
        """Wait until the peer has read enough of what was sent; SendFailed when it is gone."""
        while self._congested and self.is_open:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)
        self._check_open()

    async def _drain_within(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self.drain()
        except TimeoutError:
            raise RequestTimeout(f"{self.address} did not read what was sent to it within {timeout:g} s") from None

    def close(self, reason: str) -> None:
        """Close after what is already written; at once when the peer does not read it."""
        if not self.is_open:
            return
        self._flush()
        self.is_open = False
        self._closed_at = self._clock.monotonic()
        self._why = reason
        log.debug("%s: closed %s: %s", self._owner.name, self.peer, reason)
        if self._congested:
            self._transport.abort()
        else:
            self._transport.close()

    @property
    def releasable(self) -> int:
        """Bytes that `drop` releases: requests that run keep theirs."""
        return self.held - self._running_size

    def quiet(self) -> None:
        """Accept no more requests; those that run are still answered."""
        self._quiet = True
        self._stall()

    def abort(self) -> None:
        """Close without waiting for anything."""
        self.is_open = False
        self._closed_at = self._clock.monotonic()
        self._transport.abort()

    # Called by the guard.

    def overdue(self, now: float, timeout: float) -> str:
        """What the peer took too long for; empty when nothing. Asked about once a second."""
        if not self.is_open:
            return "it does not read what was written before the close" if now - self._closed_at >= timeout else ""
        if self._congested:
            self._unfinished = -1  # reading is paused: the peer cannot finish its frame
            self._weigh()
            allowed = timeout + self._unread / SLOWEST
            late = now - self._congested_since >= allowed
            return f"it did not read {self._unread} bytes of answers in {allowed:.0f} s" if late else ""
        pending = self._decoder.pending
        if self._stalled or not (pending or (self._tls is not None and self._tls.unfinished)):
            self._unfinished = -1
            return ""
        elapsed, self._looked_at = now - self._looked_at, now
        arrived, self._pending_seen = pending - self._pending_seen, pending
        if self._unfinished != self._decoder.splits:
            self._unfinished = self._decoder.splits
            self._unfinished_since = now
        elif now - self._unfinished_since >= timeout and arrived < SLOWEST * elapsed:  # a slow link may go on
            what = f"{pending} bytes of a frame that did not arrive whole" if pending else "a TLS record or handshake"
            return f"{what} in {timeout:g} s"
        return ""

    def drop(self) -> None:
        """Close at once and release what has arrived."""
        self._refused = True
        self.abort()
        self._decoder.clear()
        self._commands = []
        self._next = 0
        self._out = []
        self._out_size = 0
        self._weigh()

    def _weigh(self) -> None:
        """Count the memory that the connection holds."""
        size = self._decoder.pending + self._running_size
        if self._congested and self.is_open:
            unread = self._transport.get_write_buffer_size()
            self._unread = max(self._unread, unread)
            size += unread
        if size <= SMALL:
            size = 0
        change = size - self.held
        if change:
            self.held = size
            self._owner.guard.weigh(change)

    # Reading.

    def _work(self, now: float) -> None:
        """Handle every whole command at hand in read cycles, each of which ends before its answers are written."""
        cycle = self._owner.cycle
        handled = False
        taken = 0
        self._reading = True
        try:
            while not self._stalled:
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
                if taken >= SOON or self._out_size >= self._limit:
                    self._finish_read()
                    handled = False
                    taken = 0
                    now = self._clock.monotonic()
        except ProtocolError as error:
            self._refuse(str(error))
        finally:
            self._reading = False
        if handled:
            self._finish_read()

    def _finish_read(self) -> None:
        if self._owner.cycle is not None:
            self._owner.cycle.end()
        self._write_out()

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
            result = handler(self, command)
            if result is None:
                return
            if isinstance(result, Command):
                self.answer(command, result)
            else:
                self._follow(command, result)
        except Exception as error:
            self._answer_error(command, error)

    def _admit(self, request: Command) -> None:
        """Show a request to the observers, then ask the gates; one that refuses raises."""
        for observer in self._observers:
            try:
                observer.requested(self, request)
            except Exception as error:
                self._owner.log.fault(error, "%s: an observer of requests failed", self._owner.name)
        for gate in self._gates:
            gate.check(self, request)

    def _observe_response(self, request: Command, response: Command, body_size: int) -> None:
        for observer in self._observers:
            try:
                observer.answered(self, request, response, body_size)
            except Exception as error:
                self._owner.log.fault(error, "%s: an observer of responses failed", self._owner.name)

    def _answer_error(self, request: Command, error: Exception) -> None:
        if isinstance(error, ResponseError):
            self.answer(request, request.reply(error.code, remark=clip(error.remark, LONGEST_REMARK)))
            return
        remark = type(error).__name__
        if isinstance(error, ArianeError):  # its text is for the peer; any other error is a fault of this program
            remark = clip(str(error))
            text = "%s: request %d of %s failed: %s"
            self._owner.log.warning(text, self._owner.name, request.code, self.peer, remark)
        else:
            text = "%s: request %d of %s failed"
            self._owner.log.fault(error, text, self._owner.name, request.code, self.peer)
        self.answer(request, request.reply(ResponseCode.SYSTEM_ERROR, remark=remark))

    def _refuse(self, reason: str) -> None:
        """Close the connection of a peer that breaks the protocol."""
        if self._refused:
            return
        self._refused = True
        self._owner.log.warning("%s: closing %s: %s", self._owner.name, self.peer, reason)
        self.close(reason)

    # Handlers that take time.

    def _follow(self, request: Command, result: Awaitable[Command | None]) -> None:
        size = len(request.body)
        task = self._loop.create_task(self._finish(request, result, size))
        self._owner.tasks.add(task)
        task.add_done_callback(self._owner.tasks.discard)
        self._running += 1
        self._running_size += size
        if self._running >= MAX_RUNNING or self._running_size >= MAX_RUNNING_BYTES:
            self._stall()

    async def _finish(self, request: Command, result: Awaitable[Command | None], size: int) -> None:
        try:
            response = await result
            if response is not None:
                self.answer(request, response)
        except Exception as error:
            self._answer_error(request, error)
        finally:
            self._running -= 1
            self._running_size -= size
            if self.held:
                self._weigh()
            self._resume()

    # Back-pressure.

    def _stall(self) -> None:
        if not self._stalled and self.is_open:
            self._stalled = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._stalled and not self._must_stall():
            self._stalled = False
            self._loop.call_soon(self._catch_up)

    def _must_stall(self) -> bool:
        busy = self._running >= MAX_RUNNING or self._running_size >= MAX_RUNNING_BYTES
        return self._quiet or busy or (self._congested and self._owner.throttle)

    def _catch_up(self) -> None:
        """Handle what waited while the peer did not read, then continue to read."""
        if self.is_open and not self._stalled:
            self._work(self._clock.monotonic())
        if self.is_open and not self._stalled:
            self._transport.resume_reading()

    def _release_senders(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    # Writing.

    def _put(self, frame: bytes) -> None:
        if not self.is_open:
            return
        self._out.append(frame)
        self._out_size += len(frame)
        self._schedule_flush()

    def _put_parts(self, head: bytes, parts: list[memoryview], length: int) -> None:
        if not self.is_open:
            return
        self._out.append(head)
        self._out.extend(parts)
        self._out_size += len(head) + length
        self._schedule_flush()

    def _check_open(self) -> None:
        if not self.is_open:
            raise SendFailed(f"the connection to {self.address} is gone: {self._why or 'closed'}")

    def _schedule_flush(self) -> None:
        if self._reading or not self.is_open:
            return
        if self._out_size >= self._limit:
            self._flush()
        elif not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._out:
            self.last_active = self._clock.monotonic()
            self._write_out()

    def _write_out(self) -> None:
        out = self._out
        size = self._out_size
        if not out:
            return
        self._out = []
        self._out_size = 0
        if not self.is_open:
            return
        if self._tls is not None:
            self._transport.write(self._tls.encrypt(b"".join(out)))
        elif len(out) == 1:
            self._transport.write(out[0])
        elif size < JOIN_BELOW:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        if self._congested:
            self._weigh()

    # TLS.

    def _unwrap(self, data: bytes) -> bytes:
        tls = self._tls or self._recognise(data)
        if tls is None:
            return b"" if self._refused else data
        return self._decrypt(tls, data)

    def _recognise(self, data: bytes) -> TlsLayer | None:
        """Tell by the first byte whether the peer speaks TLS, and refuse what the server's mode forbids."""
        assert self._peek is not None
        try:
            tls = self._peek.layer(is_client_hello(data))
        except ProtocolError as error:
            self._refuse(str(error))
            return None
        self._tls = tls
        self.secure = self._raw = tls is not None
        return tls

    def _decrypt(self, tls: TlsLayer, data: bytes) -> bytes:
        try:
            plain = tls.decrypt(data)
        except ProtocolError as error:
            self._transport.write(tls.outgoing())  # the alert tells the peer why
            self._refuse(str(error))
            return b""
        if reply := tls.outgoing():
            self._transport.write(reply)
        return plain
