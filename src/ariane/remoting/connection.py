"""One socket: requests and responses in both directions.

A read: bytes arrive, whole commands are decoded, their handlers run in order (`incoming`), one write sends all their
responses (`outgoing`).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ariane.env import Clock
from ariane.errors import ProtocolError, RequestTimeout, SendFailed
from ariane.protocol.command import ONEWAY, Command
from ariane.protocol.frame import FrameDecoder, decode_head, encode, encode_head
from ariane.protocol.frame_head import read_head
from ariane.protocol.ids import pack_host
from ariane.remoting.address import format_address, socket_address
from ariane.remoting.gates import Gate, Observer, RpcHook
from ariane.remoting.guard import SLOWEST, Guard
from ariane.remoting.incoming import Incoming, ReadCycle, Result
from ariane.remoting.limited_log import LimitedLog
from ariane.remoting.limits import Reason, Refusals
from ariane.remoting.outgoing import JOIN_BELOW, Outgoing
from ariane.remoting.sockets import SocketOptions
from ariane.remoting.tls import TlsLayer, TlsServer, is_client_hello
from ariane.remoting.waiters import Answer, Waiters

log: Final = logging.getLogger("ariane.remoting")

Handler = Callable[["Connection", Command], Result]
Listener = Callable[["Connection"], None]

SMALL: Final = 1 << 13  # bytes that a connection may hold without being counted


class Owner(Protocol):
    """The part of its server or client that a connection uses."""

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
    refusals: Refusals

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
        self.secure = tls is not None
        self.attributes: dict[str, Any] = {}
        self.last_read = owner.clock.monotonic()
        self._owner = owner
        self._clock = owner.clock
        self._observers = owner.observers
        self._is_observed = bool(owner.observers)
        self._tls = tls
        self._peek = peek
        self._raw = tls is not None or peek is not None
        self._last_data = self.last_read
        self._decoder = FrameDecoder(owner.max_frame)
        self._outgoing = Outgoing(owner.clock, owner.sockets.limit, self.weigh)
        self._outgoing.tls = tls
        self._incoming = Incoming(owner, self, self._decoder, self._outgoing)
        self._waiters = Waiters(owner.clock, "")
        self._refused = False
        self.held = 0
        """Bytes of memory that were counted for this connection: an unfinished frame, running requests, answers."""
        self._unfinished = -1  # number of the frame that was unfinished at the guard's last check
        self._unfinished_since = 0.0
        self._pending_seen = 0
        self._looked_at = 0.0
        self._unread = 0  # most bytes that waited for the peer to read them, since it stopped
        self._unread_before = 0  # bytes waiting at the guard's last check
        self._closed_at = 0.0
        self._why = ""

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return self._outgoing.is_open

    @property
    def last_active(self) -> float:
        """When bytes last went either way."""
        return max(self._last_data, self._outgoing.last_write)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        loop = asyncio.get_running_loop()
        host, port = socket_address(transport.get_extra_info("peername"))
        self.peer = format_address(host, port)
        self.peer_host = pack_host(host, port)
        self.local = format_address(*socket_address(transport.get_extra_info("sockname")))
        self.address = self.address or self.peer
        self._waiters = Waiters(self._clock, self.address)
        self._owner.sockets.apply(transport)
        self._incoming.open(transport, loop, self._waiters)
        self._outgoing.open(transport, loop)
        self._owner.opened(self)
        if self._tls is not None:
            self._transport.write(self._tls.start())

    def data_received(self, data: bytes) -> None:
        now = self._clock.monotonic()
        self.last_read = now
        if self._raw:
            data = self._unwrap(data)
        if data:
            self._last_data = now
            self._decoder.feed(data)
            if not self._incoming.stalled:
                self._incoming.work(now)
            if self.held or self._decoder.pending + self._incoming.running_bytes > SMALL:
                self.weigh()
        if self._raw and self._tls is not None and self._tls.finished:
            self.close("closed by the peer")

    def eof_received(self) -> bool:
        self._why = self._why or "closed by the peer"
        self._outgoing.flush()  # a peer that has closed its sending side may still read
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._outgoing.is_open = False
        self._why = self._why or (str(error) if error else "closed by the peer")
        self._waiters.fail(f"the connection to {self.address} is gone: {self._why}")
        self._outgoing.release()
        try:
            if not self._refused:
                self._incoming.finish()
        finally:
            self._decoder.clear()
            self.weigh()
            self._owner.lost(self)

    def pause_writing(self) -> None:
        self._outgoing.congest()
        self._unread = 0
        if self._owner.throttle:
            self._incoming.stall()

    def resume_writing(self) -> None:
        self._outgoing.release()
        self.weigh()
        self._incoming.resume()

    # Called by handlers and clients.

    def send(self, command: Command) -> None:
        """Write a command; dropped when the peer is gone. All commands of one turn of the loop leave in one write."""
        if not self.is_open:
            return
        if len(command.body) >= JOIN_BELOW:
            head = encode_head(command, len(command.body))
            self._outgoing.put_parts(head, [memoryview(command.body)], len(command.body))
            return
        self._outgoing.put(encode(command))

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
        self._outgoing.put(frame)

    def answer_parts(self, request: Command, response: Command, parts: list[memoryview], length: int) -> None:
        """Like `answer`, for a body of `length` bytes that is sent from where it is stored."""
        if request.flag & ONEWAY:
            return
        if self._is_observed:
            self._observe_response(request, response, length)
        self._outgoing.put_parts(encode_head(response, length), parts, length)

    def answer_encoded_parts(self, request: Command, head: bytes, parts: list[memoryview], length: int) -> None:
        """Like `answer_parts`, when everything before the body is already encoded."""
        if request.flag & ONEWAY:
            return
        if self._is_observed:
            self._observe_response(request, decode_head(head), length)
        self._outgoing.put_parts(head, parts, length)

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
        return self.is_open and not self._outgoing.congested and not self._owner.hooks_out

    def next_opaque(self) -> int:
        """The opaque for the next encoded request; may be called in any thread."""
        return self._owner.next_opaque()

    def submit_encoded(self, data: bytes, opaque: int, timeout: float, answer: Answer) -> None:
        """Send an encoded request. Hooks do not see it, so check `is_clear` first."""
        if not self.is_open:
            answer.set_exception(SendFailed(f"the connection to {self.address} is gone: {self._why or 'closed'}"))
            return
        self._waiters.put(opaque, timeout, answer)
        self._outgoing.put(data)

    def forget(self, opaque: int) -> None:
        """Drop a pending request: its response is not wanted any more."""
        self._waiters.forget(opaque)

    async def request(self, command: Command, timeout: float) -> Command:
        """Send a request and wait for its response: RequestTimeout or SendFailed when there is none.

        A response with an error code is returned, not raised: the caller decides what it means.
        """
        if self._outgoing.congested:
            try:
                async with asyncio.timeout(timeout):
                    await self.drain()
            except TimeoutError:
                raise RequestTimeout(f"{self.address} did not read what was sent to it within {timeout:g} s") from None
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
        """Wait until the send buffer is below its limit; SendFailed when the peer is gone."""
        await self._outgoing.drain()
        self._check_open()

    def close(self, reason: str) -> None:
        """Close after pending writes; at once when the peer does not read them."""
        if not self.is_open:
            return
        self._outgoing.flush()
        self._outgoing.is_open = False
        self._closed_at = self._clock.monotonic()
        self._why = reason
        log.debug("%s: closed %s: %s", self._owner.name, self.peer, reason)
        if self._outgoing.congested:
            self._transport.abort()
        else:
            self._transport.close()

    @property
    def releasable(self) -> int:
        """Bytes that `drop` releases: requests that run keep theirs."""
        return self.held - self._incoming.running_bytes

    def quiet(self) -> None:
        """Accept no more requests; those that run are still answered."""
        self._incoming.quiet()

    def abort(self) -> None:
        """Close without waiting for anything."""
        self._outgoing.is_open = False
        self._closed_at = self._clock.monotonic()
        self._transport.abort()

    # Called by the guard.

    def overdue(self, now: float, timeout: float) -> tuple[Reason, str] | None:
        """The limit that the peer exceeded and a text about it; None when it is in time. Asked about once a second."""
        if not self.is_open:
            late = now - self._closed_at >= timeout
            return (Reason.UNREAD, "it does not read what was written before the close") if late else None
        if self._outgoing.congested:
            self._unfinished = -1  # reading is paused: the peer cannot finish its frame
            self.weigh()
            allowed = timeout + self._unread / SLOWEST
            late = now - self._outgoing.congested_since >= allowed
            text = f"it did not read {self._unread} bytes of answers in {allowed:.0f} s"
            return (Reason.UNREAD, text) if late else None
        pending = self._decoder.pending
        if self._incoming.stalled or not (pending or (self._tls is not None and self._tls.unfinished)):
            self._unfinished = -1
            return None
        elapsed, self._looked_at = now - self._looked_at, now
        arrived, self._pending_seen = pending - self._pending_seen, pending
        if self._unfinished != self._decoder.splits:
            self._unfinished = self._decoder.splits
            self._unfinished_since = now
        elif now - self._unfinished_since >= timeout and arrived < SLOWEST * elapsed:  # slow but steady is fine
            what = f"{pending} bytes of a frame that did not arrive whole" if pending else "a TLS record or handshake"
            return Reason.FRAME_TIMEOUT, f"{what} in {timeout:g} s"
        return None

    def is_reading(self, now: float) -> bool:
        """Whether the peer has read answers since the last call; if so it is not idle."""
        unread = self._transport.get_write_buffer_size()
        before, self._unread_before = self._unread_before, unread
        if not 0 < unread != before:
            return False
        self._last_data = now
        return True

    def drop(self) -> None:
        """Close at once and release what has arrived."""
        self._refused = True
        self.abort()
        self._incoming.clear()
        self._outgoing.clear()
        self.weigh()

    def weigh(self) -> None:
        """Count the memory that the connection holds."""
        unread = self._outgoing.unread()
        self._unread = max(self._unread, unread)
        size = self._decoder.pending + self._incoming.running_bytes + unread
        if size <= SMALL:
            size = 0
        change = size - self.held
        if change:
            self.held = size
            self._owner.guard.weigh(change)

    # Called by the receiving side.

    def refuse(self, reason: str) -> None:
        """Close the connection of a peer that breaks the protocol."""
        if self._refused:
            return
        self._refused = True
        self._owner.refusals.count(Reason.FRAME)
        self._owner.log.warning("%s: closing %s: %s", self._owner.name, self.peer, reason)
        self.close(reason)

    def _check_open(self) -> None:
        if not self.is_open:
            raise SendFailed(f"the connection to {self.address} is gone: {self._why or 'closed'}")

    def _observe_response(self, request: Command, response: Command, body_size: int) -> None:
        for observer in self._observers:
            try:
                observer.answered(self, request, response, body_size)
            except Exception as error:
                self._owner.log.fault(error, "%s: an observer of responses failed", self._owner.name)

    # TLS.

    def _unwrap(self, data: bytes) -> bytes:
        tls = self._tls or self._recognise(data)
        if tls is None:
            return b"" if self._refused else data
        return self._decrypt(tls, data)

    def _recognise(self, data: bytes) -> TlsLayer | None:
        """Detect TLS by the first byte, and refuse connections that the server's mode forbids."""
        assert self._peek is not None
        try:
            tls = self._peek.layer(is_client_hello(data))
        except ProtocolError as error:
            self.refuse(str(error))
            return None
        self._tls = self._outgoing.tls = tls
        self.secure = self._raw = tls is not None
        return tls

    def _decrypt(self, tls: TlsLayer, data: bytes) -> bytes:
        try:
            plain = tls.decrypt(data)
        except ProtocolError as error:
            self._transport.write(tls.outgoing())  # the alert tells the peer why
            self.refuse(str(error))
            return b""
        if reply := tls.outgoing():
            self._transport.write(reply)
        return plain
