"""A connection of its own for one caller at a time, without an event loop: ask, and read until the answer comes.

A thread that waits for one answer after the other saves two changes of threads a request this way. Whoever finds the
line taken goes through the loop, where the requests of many leave together.
"""

import select
import socket
import threading
from contextlib import suppress
from typing import Final

from ariane.env import Clock
from ariane.errors import ArianeError, ProtocolError, RequestTimeout, SendFailed
from ariane.protocol.command import RESPONSE, Command
from ariane.protocol.frame import FrameDecoder
from ariane.remoting.address import parse_address

TICK: Final = 0.05  # seconds between two looks at the clock while nothing comes
DOUBT_AFTER: Final = 1.0  # seconds of quiet after which the peer may have gone unnoticed
PAUSE: Final = 10.0  # seconds until the next try when there was no connection to be had
CHUNK: Final = 1 << 16


class Line:
    """Take it, ask, and it is free again."""

    def __init__(self, address: str, clock: Clock, connect_timeout: float) -> None:
        self.address = address
        self._clock = clock
        self._connect_timeout = connect_timeout
        self._taken = threading.Lock()
        self._socket: socket.socket | None = None
        self._decoder = FrameDecoder()
        self._last_use = 0.0
        self._next_try = clock.monotonic()
        self._closed = False

    def take(self) -> bool:
        """Whether the line is the caller's now; `ask` gives it back."""
        if not self._taken.acquire(blocking=False):
            return False
        if self._is_up() or self._dial():
            return True
        self._taken.release()
        return False

    def ask(self, data: bytes, opaque: int, timeout: float) -> Command:
        """Send a request in bytes and wait for its answer: RequestTimeout or SendFailed when there is none."""
        peer = self._socket
        assert peer is not None
        try:
            peer.sendall(data)
            return self._answer(peer, opaque, timeout)
        except (OSError, ProtocolError) as error:
            self._hang_up()
            raise SendFailed(f"the connection to {self.address} is gone: {error}") from error
        except BaseException as error:
            if not isinstance(error, ArianeError):
                self._hang_up()  # interrupted: what the peer still sends is for nobody
            raise
        finally:
            self._last_use = self._clock.monotonic()
            self._taken.release()

    def close(self) -> None:
        """Hang up for good; whoever asks just now gets SendFailed.

        Only the one who has the line closes its socket: the number of a socket that another thread reads from could be
        somebody else's a moment later.
        """
        self._closed = True
        peer = self._socket
        if self._taken.acquire(blocking=False):
            self._hang_up()
            self._taken.release()
        elif peer is not None:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def _answer(self, peer: socket.socket, opaque: int, timeout: float) -> Command:
        deadline = self._clock.monotonic() + timeout
        silent = True
        while True:
            for command in self._read(peer):
                silent = False
                if command.opaque == opaque and command.flag & RESPONSE:
                    return command
            if self._clock.monotonic() >= deadline:
                if silent:  # the peer may be gone without a word
                    self._hang_up()
                raise RequestTimeout(f"{self.address} did not answer within {timeout:g} s")

    def _read(self, peer: socket.socket) -> list[Command]:
        try:
            chunk = peer.recv(CHUNK)
        except TimeoutError:
            return []
        if not chunk:
            raise ConnectionResetError("closed by the peer")
        self._decoder.feed(chunk)
        return self._decoder.take()

    def _is_up(self) -> bool:
        """A line that was quiet for long is looked at: readable without a question means that the peer hung up."""
        if self._socket is None:
            return False
        if self._clock.monotonic() - self._last_use < DOUBT_AFTER:
            return True
        if select.select([self._socket], [], [], 0)[0]:
            self._hang_up()
            return False
        return True

    def _dial(self) -> bool:
        now = self._clock.monotonic()
        if self._closed or now < self._next_try:
            return False
        try:
            peer = socket.create_connection(parse_address(self.address), self._connect_timeout)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.settimeout(TICK)
        except (OSError, UnicodeError):  # the way through the loop tells what is wrong
            self._next_try = now + PAUSE
            return False
        self._socket, self._decoder, self._last_use = peer, FrameDecoder(), now
        return True

    def _hang_up(self) -> None:
        peer, self._socket = self._socket, None
        if peer is not None:
            peer.close()
