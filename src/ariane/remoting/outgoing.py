"""The sending side of a connection: collects frames, and sends them in one write as fast as the peer reads."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Final

from ariane.env import Clock
from ariane.remoting.tls import TlsLayer

JOIN_BELOW: Final = 1 << 16  # below this size one joined write is faster than a vector of buffers

# In CPython before 3.12.9 and 3.13.2, asyncio's `writelines` never tells a protocol that its peer does not read.
_TELLS: Final = not ((3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2))


def write_lines(transport: asyncio.WriteTransport, parts: Sequence[bytes | memoryview]) -> None:
    """Write parts without joining them."""
    if _TELLS:
        transport.writelines(parts)
        return
    for part in parts:
        transport.write(part)


class Outgoing:
    """Frames to be sent to the peer. All frames of one turn of the event loop are sent in one write."""

    def __init__(self, clock: Clock, limit: int, wrote: Callable[[], None]) -> None:
        self.is_open = False
        """Frames put while the connection is not open are dropped."""
        self.size = 0
        """Bytes that wait to be written."""
        self.limit = limit
        """Number of waiting bytes above which they are written at once."""
        self.in_cycle = False
        """Whether a read cycle runs, which writes when it ends."""
        self.congested = False
        """Whether the transport is full: the peer reads slower than answers are produced."""
        self.congested_since = 0.0
        self.last_write = 0.0
        self.tls: TlsLayer | None = None
        self._clock = clock
        self._wrote = wrote  # called after a write to a peer that does not read
        self._frames: list[bytes | memoryview] = []
        self._flush_due = False
        self._drained: asyncio.Future[None] | None = None

    def open(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Write to this transport from now on."""
        self._transport = transport
        self._loop = loop
        self.is_open = True

    def put(self, frame: bytes) -> None:
        """Send a frame."""
        if not self.is_open:
            return
        self._frames.append(frame)
        self.size += len(frame)
        if not self.in_cycle:
            self._schedule()

    def put_parts(self, head: bytes, parts: list[memoryview], length: int) -> None:
        """Send a frame whose body of `length` bytes is sent without a copy."""
        if not self.is_open:
            return
        self._frames.append(head)
        self._frames.extend(parts)
        self.size += len(head) + length
        if not self.in_cycle:
            self._schedule()

    def _schedule(self) -> None:
        if self.size >= self.limit:
            self.flush()
        elif not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the frames put outside of a read cycle."""
        self._flush_due = False
        if self._frames:
            self.last_write = self._clock.monotonic()
            self.write()

    def write(self) -> None:
        """Write all waiting frames."""
        frames, size = self._frames, self.size
        if not frames:
            return
        self._frames = []
        self.size = 0
        if not self.is_open:
            return
        if self.tls is not None:
            self._transport.write(self.tls.encrypt(b"".join(frames)))
        elif len(frames) == 1:
            self._transport.write(frames[0])
        elif size < JOIN_BELOW:
            self._transport.write(b"".join(frames))
        else:
            write_lines(self._transport, frames)
        if self.congested:
            self._wrote()

    def clear(self) -> None:
        """Drop all waiting frames."""
        self._frames = []
        self.size = 0

    def unread(self) -> int:
        """Bytes that were written and wait for a peer that does not read; 0 while it does."""
        return self._transport.get_write_buffer_size() if self.congested and self.is_open else 0

    def congest(self) -> None:
        """The transport is full."""
        self.congested = True
        self.congested_since = self._clock.monotonic()

    def release(self) -> None:
        """The transport has room again, or is gone: let senders that wait in `drain` go on."""
        self.congested = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    async def drain(self) -> None:
        """Wait until the send buffer is below its limit, or the peer is gone."""
        while self.congested and self.is_open:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)
