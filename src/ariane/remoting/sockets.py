"""Options of sockets; 0 keeps the default of the system."""

import asyncio
import socket
from dataclasses import dataclass
from typing import Final, Protocol

HIGH_WATER: Final = 1 << 20  # bytes of unread answers above which no more requests of the peer are read
LOW_WATER: Final = 1 << 18


class SocketSettings(Protocol):
    """The part of a server's configuration that is about sockets."""

    @property
    def server_socket_backlog(self) -> int: ...

    @property
    def server_socket_snd_buf_size(self) -> int: ...

    @property
    def server_socket_rcv_buf_size(self) -> int: ...

    @property
    def write_buffer_high_water_mark(self) -> int: ...

    @property
    def write_buffer_low_water_mark(self) -> int: ...


@dataclass(frozen=True)
class SocketOptions:
    """Sizes of queues and buffers, in connections and in bytes."""

    backlog: int = 1024
    send_buffer: int = 0
    receive_buffer: int = 0
    high_water: int = 0
    low_water: int = 0

    @classmethod
    def of(cls, options: SocketSettings) -> "SocketOptions":
        """The options of a server as its configuration has them."""
        return cls(
            backlog=options.server_socket_backlog,
            send_buffer=options.server_socket_snd_buf_size,
            receive_buffer=options.server_socket_rcv_buf_size,
            high_water=options.write_buffer_high_water_mark,
            low_water=options.write_buffer_low_water_mark,
        )

    @property
    def limit(self) -> int:
        """Bytes that may wait to be written."""
        return self.high_water or HIGH_WATER

    def apply(self, transport: asyncio.Transport) -> None:
        """Set the options of a new connection's socket."""
        transport.set_write_buffer_limits(self.limit, min(self.low_water or LOW_WATER, self.limit))
        sock: socket.socket | None = transport.get_extra_info("socket")
        if sock is None:
            return
        if self.send_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer)
        if self.receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
