"""The filter servers that are registered with this broker; name servers tell consumers of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ariane.broker.periodic import Periodic
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.protocol.codes import ResponseCode
from ariane.remoting import Connection

log = logging.getLogger("ariane.broker")

SILENT = 30.0  # seconds after which one that has not registered again is removed, as in RocketMQ
SCAN = 10.0
MOST = 64  # as many as a name server takes of one broker
LONGEST = 255


class FilterServers:
    """Filter servers by the connection on which they registered; one that closes it is removed at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[Connection, tuple[str, float]] = {}
        self.on_change: list[Callable[[], None]] = []

    def addresses(self) -> list[str]:
        """The addresses, sorted."""
        return sorted({address for address, _ in self._heard.values()})

    def register(self, connection: Connection, address: str) -> None:
        """Add or renew a filter server."""
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isdecimal() and len(address) <= LONGEST and address.isprintable()):
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{address!r} is no address of a filter server: host:port")
        before = self.addresses()
        if connection not in self._heard and len(self._heard) >= MOST:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{MOST} filter servers are registered, the limit")
        self._heard[connection] = (address, self._clock.monotonic())
        self._tell(before)

    def connection_closed(self, connection: Connection) -> None:
        """Remove the filter server of a connection."""
        if connection in self._heard:
            before = self.addresses()
            del self._heard[connection]
            self._tell(before)

    def periodic(self) -> Periodic:
        """The removal of those that are silent."""
        return Periodic(self._clock, SCAN, self._expire, name="expire filter servers")

    async def _expire(self) -> None:
        oldest = self._clock.monotonic() - SILENT
        before = self.addresses()
        self._heard = {one: entry for one, entry in self._heard.items() if entry[1] >= oldest}
        self._tell(before)

    def _tell(self, before: list[str]) -> None:
        now = self.addresses()
        if now != before:
            log.info("filter servers: %s", ", ".join(now) or "none")
            for listener in self.on_change:
                listener()
