"""The local address, and the ids of messages."""

import asyncio
import os
import socket
from datetime import datetime
from ipaddress import ip_address
from itertools import count
from typing import Any, Final

from ariane.env import Clock
from ariane.errors import ConnectFailed
from ariane.protocol.ids import unique_id
from ariane.remoting import parse_address


async def local_address(peers: tuple[str, ...]) -> str:
    """The local address of the route to the peers; the kernel is asked, nothing is sent."""
    loop = asyncio.get_running_loop()
    for peer in peers:
        try:
            host, port = parse_address(peer)
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            return _route_source(found[0])
        except (OSError, ConnectFailed, UnicodeError):
            continue
    return "127.0.0.1"


def _route_source(found: tuple[Any, ...]) -> str:
    family, kind, protocol, _, address = found
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0]).partition("%")[0]


def _month_start(now_ms: int) -> int:
    """The start of this month; milliseconds since then fit into four bytes."""
    moment = datetime.fromtimestamp(now_ms / 1000)
    return int(datetime(moment.year, moment.month, 1).timestamp() * 1000)


_MONTH: Final = 32 * 86_400_000
_HEX: Final = [f"{number:02X}" for number in range(256)]  # formatting a number costs several times a look-up


class UniqueIds:
    """Generates message ids in RocketMQ's form: host, process, generator, time in the month, counter.

    The third part is the hash of a class loader in Java; here it distinguishes the generators of one process.
    """

    def __init__(self, address: str, clock: Clock, maker: int) -> None:
        whole = unique_id(ip_address(address).packed, os.getpid(), maker, 0, 0)
        self._maker = whole[:-12]  # all but time and counter
        self._counter = count()
        self._start = _month_start(clock.now_ms())
        self._last = -1
        self._prefix = ""  # all but the counter, of the last millisecond

    def make(self, now_ms: int) -> str:
        """Generate an id at this time."""
        if now_ms != self._last:
            elapsed = now_ms - self._start
            if not 0 <= elapsed < _MONTH:
                self._start = _month_start(now_ms)
                elapsed = now_ms - self._start
            prefix = f"{self._maker}{elapsed:08X}"
            self._prefix, self._last = prefix, now_ms
        number = next(self._counter) & 0xFFFF
        return self._prefix + _HEX[number >> 8] + _HEX[number & 0xFF]
