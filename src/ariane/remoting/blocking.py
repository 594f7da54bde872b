"""Connections without an event loop, for threads that wait for one answer after the other.

`BlockingConnection` is a socket of one thread: frames out, commands in, plain or TLS. `ExclusiveConnection` is one that
several threads share: one takes it for one request, the others use the event loop.
"""

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from ariane.env import Clock
from ariane.errors import ArianeError, ConnectFailed, ProtocolError, RequestTimeout, SendFailed
from ariane.protocol.command import RESPONSE, Command, decode_header
from ariane.protocol.frame_head import HEAD_SIZE, MAX_FRAME, read_head
from ariane.remoting.address import parse_address
from ariane.remoting.guard import SLOWEST
from ariane.remoting.tls import TlsClient

TICK: Final = 0.05  # seconds between two checks of the deadline while nothing arrives
CHUNK: Final = 1 << 16
JOINED: Final = 1 << 16  # bytes of a request that must be written within a tick; a longer one gets the time-out
DOUBT_AFTER: Final = 1.0  # seconds without use after which the peer may have closed unnoticed
RETRY_AFTER: Final = 10.0  # seconds until the next attempt when no connection could be made


class Received(NamedTuple):
    """A command and its body, which is not in `command.body`."""

    command: Command
    body: memoryview


def _bytes(size: int) -> memoryview:
    return memoryview(bytearray(size))


class BlockingConnection:
    """One connection, used by one thread at a time.

    After RequestTimeout it stays usable; after any other error it is closed. `allocate` gives the memory for large
    bodies, which are received straight into it.
    """

    def __init__(
        self,
        address: str,
        clock: Clock,
        connect_timeout: float,
        *,
        tls: TlsClient | None = None,
        max_frame: int = MAX_FRAME,
        allocate: Callable[[int], memoryview] = _bytes,
    ) -> None:
        self.address = address
        self._clock = clock
        self._max_frame = max_frame
        self._allocate = allocate
        self._buffer = bytearray()  # received, not yet taken
        self._partial: Received | None = None  # a command whose body is being received
        self._filled = 0
        host, port = parse_address(address)
        try:
            self._tls = None if tls is None else tls.layer(host)
            self._socket = socket.create_connection((host, port), connect_timeout)
        except (OSError, UnicodeError, ProtocolError) as error:
            raise ConnectFailed(f"cannot connect to {address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(TICK)
        if self._tls is not None:
            self._write(self._tls.start(), connect_timeout)

    def send(self, frame: bytes, timeout: float) -> None:
        """Write a frame; RequestTimeout when the peer does not take it, SendFailed when it is gone."""
        self._write(frame if self._tls is None else self._tls.encrypt(frame), timeout)

    def receive(self, timeout: float) -> Received:
        """The next command; RequestTimeout when none has come whole in time, SendFailed when the peer is gone.

        While bytes arrive it may take longer by what they need at the rate `SLOWEST`.
        """
        deadline = self._clock.monotonic() + timeout
        extra, late = 0.0, False
        try:
            while (received := self._take()) is None:
                if late:
                    raise RequestTimeout(f"{self.address} did not answer within {timeout:g} s")
                asked = self._clock.monotonic()  # before reading: this thread may be late, not the peer
                extra += self._fill() / SLOWEST
                late = asked >= deadline + extra
        except OSError as error:
            self.close()
            raise SendFailed(f"the connection to {self.address} is gone: {error}") from error
        except ProtocolError as error:
            self.close()
            raise SendFailed(f"the connection to {self.address} is closed: {error}") from error
        except BaseException as error:
            if not isinstance(error, ArianeError):
                self.close()  # interrupted: how far the command was read is unknown
            raise
        return received

    @property
    def is_stale(self) -> bool:
        """Whether data arrived although no response is pending: most likely the peer has closed."""
        with selectors.DefaultSelector() as selector:  # select.select refuses descriptors above 1023
            selector.register(self._socket, selectors.EVENT_READ)
            return bool(selector.select(0))

    def shut_down(self) -> None:
        """End the connection from another thread: the one that uses it gets SendFailed, and closes it.

        Only that thread may close the socket: otherwise its descriptor could be reused while the thread still reads
        from it.
        """
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _take(self) -> Received | None:
        """The command at the front of the buffer, if it has come whole."""
        if self._partial is not None:
            if self._filled < len(self._partial.body):
                return None
            received, self._partial = self._partial, None
            return received
        have = len(self._buffer)
        if have < HEAD_SIZE:
            return None
        serialization, header_size, body_size = read_head(self._buffer, self._max_frame)
        body_at = HEAD_SIZE + header_size
        if have < body_at:
            return None
        if have - body_at < body_size and body_size <= CHUNK:
            return None
        command = decode_header(serialization, bytes(self._buffer[HEAD_SIZE:body_at]))
        if have - body_at >= body_size:
            body = memoryview(bytes(self._buffer[body_at : body_at + body_size]))
            del self._buffer[: body_at + body_size]
            return Received(command, body)
        body = self._allocate(body_size)
        self._filled = have - body_at
        body[: self._filled] = self._buffer[body_at:]
        self._buffer.clear()
        self._partial = Received(command, body)
        return None

    def _fill(self) -> int:
        """Receive available bytes and return their number; 0 when none arrived for a tick."""
        partial = self._partial
        try:
            if self._tls is None and partial is not None:
                got = self._socket.recv_into(partial.body[self._filled :])
                self._filled += got
                if not got:
                    raise ConnectionResetError("closed by the peer")
                return got
            chunk = self._socket.recv(CHUNK)
        except TimeoutError:
            return 0
        if not chunk:
            raise ConnectionResetError("closed by the peer")
        count = len(chunk)
        if self._tls is not None:
            chunk = self._tls.decrypt(chunk)
            if answer := self._tls.outgoing():
                self._write(answer, TICK)
        if partial is None:
            self._buffer += chunk
            return count
        size = min(len(chunk), len(partial.body) - self._filled)
        partial.body[self._filled : self._filled + size] = chunk[:size]
        self._filled += size
        self._buffer += chunk[size:]
        return count

    def _write(self, data: bytes, timeout: float) -> None:
        is_long = len(data) > JOINED or timeout < TICK
        try:
            if is_long:
                self._socket.settimeout(timeout)
            try:
                self._socket.sendall(data)
            finally:
                if is_long:
                    self._socket.settimeout(TICK)
        except TimeoutError:
            self.close()  # part of the frame is written
            raise RequestTimeout(f"{self.address} does not take a request of {len(data)} bytes") from None
        except OSError as error:
            self.close()
            raise SendFailed(f"the connection to {self.address} is gone: {error}") from error


class ExclusiveConnection:
    """A blocking connection owned by one of several threads at a time, opened when it is first taken.

    This saves two thread switches per request for a thread that waits for one answer after the other. A thread that
    does not get it uses the event loop, which sends the requests of many threads together.
    """

    def __init__(self, address: str, clock: Clock, connect_timeout: float) -> None:
        self.address = address
        self._clock = clock
        self._connect_timeout = connect_timeout
        self._taken = threading.Lock()
        self._connection: BlockingConnection | None = None
        self._last_use = 0.0
        self._next_try = clock.monotonic()
        self._closed = False

    def take(self) -> bool:
        """Try to take the connection; True if the caller owns it now, until `ask` or `give_back`."""
        if not self._taken.acquire(blocking=False):
            return False
        if self._is_up() or self._connect():
            return True
        self._taken.release()
        return False

    def give_back(self) -> None:
        """Return the connection unused."""
        self._taken.release()

    def ask(self, frame: bytes, opaque: int, timeout: float) -> Command:
        """Send an encoded request and wait for its response: RequestTimeout or SendFailed when there is none."""
        connection = self._connection
        assert connection is not None
        deadline = self._clock.monotonic() + timeout
        is_silent = True
        try:
            connection.send(frame, timeout)
            while True:
                command, body = connection.receive(max(deadline - self._clock.monotonic(), 0))
                is_silent = False
                if command.opaque == opaque and command.flag & RESPONSE:
                    command.body = bytes(body)
                    return command
        except RequestTimeout:
            if is_silent:  # the peer may be gone without notice
                self._drop()
            raise RequestTimeout(f"{self.address} did not answer within {timeout:g} s") from None
        except BaseException:
            self._drop()
            raise
        finally:
            self._last_use = self._clock.monotonic()
            self._taken.release()

    def close(self) -> None:
        """Close for good; a thread that asks just now gets SendFailed."""
        self._closed = True
        connection = self._connection
        if self._taken.acquire(blocking=False):
            self._drop()
            self._taken.release()
        elif connection is not None:
            connection.shut_down()

    def _is_up(self) -> bool:
        if self._connection is None:
            return False
        if self._clock.monotonic() - self._last_use < DOUBT_AFTER or not self._connection.is_stale:
            return True
        self._drop()
        return False

    def _connect(self) -> bool:
        now = self._clock.monotonic()
        if self._closed or now < self._next_try:
            return False
        try:
            self._connection = BlockingConnection(self.address, self._clock, self._connect_timeout)
        except ConnectFailed:  # the event loop's connection will report the error
            self._next_try = now + RETRY_AFTER
            return False
        self._last_use = now
        return True

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
