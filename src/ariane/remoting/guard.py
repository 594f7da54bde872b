"""Bounds the resources that peers can use: time to finish a frame, memory for unfinished and unread data."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from ariane.env import Clock
from ariane.remoting.limited_log import LimitedLog
from ariane.remoting.limits import Reason, Refusals

AT_ONCE: Final = 256  # connections checked before the event loop gets a turn: there may be many thousands
SLOWEST: Final = 1 << 16  # bytes a second that a peer must read of its answers, beyond the first `frame_timeout`


class LimitSettings(Protocol):
    """The part of a server's configuration that is about limits."""

    @property
    def server_frame_timeout_seconds(self) -> int: ...

    @property
    def server_buffered_bytes_max(self) -> int: ...

    @property
    def server_connections_max(self) -> int: ...

    @property
    def server_connections_per_address_max(self) -> int: ...


@dataclass(frozen=True)
class Limits:
    """Limits of the resources that peers can use."""

    frame_timeout: float = 30.0
    """Seconds for a frame to arrive whole, for a TLS handshake, and for a peer to begin to read its answers."""
    buffered_bytes: int = 256 * 1024 * 1024
    """Bytes of unfinished frames, of requests that run and of unread answers, on all connections together."""
    connections: int = 65536
    connections_per_address: int = 32768
    """Connections from one address, or one IPv6 network."""

    @classmethod
    def of(cls, options: LimitSettings) -> "Limits":
        """The limits of a server as its configuration has them."""
        return cls(
            options.server_frame_timeout_seconds,
            options.server_buffered_bytes_max,
            options.server_connections_max,
            options.server_connections_per_address_max,
        )


class Guarded(Protocol):
    """The part of a connection that a guard uses."""

    peer: str

    @property
    def last_active(self) -> float: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def held(self) -> int:
        """Bytes of memory that the connection is known to hold."""
        ...

    @property
    def releasable(self) -> int:
        """Bytes of it that closing the connection releases."""
        ...

    def overdue(self, now: float, timeout: float) -> tuple[Reason, str] | None:
        """The limit that the peer exceeded and a text about it; None when it is in time."""
        ...

    def is_reading(self, now: float) -> bool:
        """Whether the peer has read answers since the last call; if so it is not idle."""
        ...

    def close(self, reason: str) -> None: ...

    def drop(self) -> None:
        """Close at once and release what the connection holds."""
        ...


class Guard:
    """Watches the connections of one server or client. One task watches them all: `watch`."""

    def __init__(
        self,
        connections: Collection[Guarded],
        clock: Clock,
        log: LimitedLog,
        name: str,
        idle_timeout: float,
        refusals: Refusals,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._log = log
        self._name = name
        self._idle_timeout = idle_timeout
        self._refusals = refusals
        self._frame_timeout = 0.0
        self._most = 0
        self.buffered = 0
        """Bytes that all connections hold together; small amounts are not counted."""

    def limit(self, limits: Limits, max_frame: int) -> None:
        """Set the limits; without them, only idle connections are closed. Two of the largest frames always fit."""
        self._frame_timeout = limits.frame_timeout
        self._most = max(limits.buffered_bytes, 2 * max_frame)

    def weigh(self, change: int) -> None:
        """Add to (or subtract from) the counted bytes; above the limit, close the connections that hold most."""
        self.buffered += change
        while self._most and self.buffered > self._most:
            worst = max((c for c in self._connections if c.is_open), key=lambda c: c.releasable, default=None)
            if worst is None or worst.releasable <= 0:
                return
            self._refusals.count(Reason.BUFFERED_BYTES)
            text = "%s: closing %s: it holds %d of %d bytes that are buffered for all peers, more than the limit of %d"
            self._log.warning(text, self._name, worst.peer, worst.held, self.buffered, self._most)
            worst.drop()

    async def watch(self) -> None:
        """Close connections that are idle or overdue, until cancelled."""
        while True:
            await self._clock.sleep(min(1.0, self._idle_timeout / 2))
            self._log.flush()
            await self._sweep(self._clock.monotonic())

    async def _sweep(self, now: float) -> None:
        for number, connection in enumerate(list(self._connections), 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            late = connection.overdue(now, self._frame_timeout) if self._frame_timeout else None
            if late is not None:
                self._refusals.count(late[0])
                self._log.warning("%s: closing %s: %s", self._name, connection.peer, late[1])
                connection.drop()
            elif connection.is_open and connection.last_active <= now - self._idle_timeout:
                if connection.is_reading(now):
                    continue
                self._refusals.count(Reason.IDLE)
                connection.close(f"nothing moved for {self._idle_timeout:g} s")
