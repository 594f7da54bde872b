"""A network in memory whose connections deliver, lose and cut what a test tells them to.

Nothing moves by itself: `deliver` hands bytes to the other end, `cut` breaks a connection at both ends or at one.
"""

import asyncio
from collections.abc import Callable
from typing import Any


class Pipe(asyncio.Transport):
    """One end of a connection. What is written waits in `sent` until it is delivered to `peer`."""

    def __init__(self, protocol: asyncio.BaseProtocol, host: str) -> None:
        super().__init__()
        self.protocol = protocol
        self.host = host
        self.sent = bytearray()
        self.closing = False
        self.gone = False
        self.peer: Pipe | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.host, 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        if not self.closing:
            self.sent += data

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True
        asyncio.get_running_loop().call_soon(self.lose)

    close = abort

    def receive(self, data: bytes) -> None:
        """Hand bytes to the protocol of this end."""
        if isinstance(self.protocol, asyncio.Protocol):
            self.protocol.data_received(data)
            return
        assert isinstance(self.protocol, asyncio.BufferedProtocol)
        while data and not self.closing:
            buffer = self.protocol.get_buffer(len(data))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self.protocol.buffer_updated(size)
            data = data[size:]

    def lose(self) -> None:
        """Tell this end that its connection is lost."""
        self.closing = True
        if not self.gone:
            self.gone = True
            self.protocol.connection_lost(None)


class Network:
    """Listeners by address, and all connections between them."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[], asyncio.BaseProtocol]] = {}
        self.pairs: list[tuple[Pipe, Pipe]] = []  # client end, server end
        self.unreachable: set[str] = set()

    def listen(self, address: str) -> Callable[..., Any]:
        """What a server at this address is given to listen."""

        async def listen(factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> "Listener":
            self.listeners[address] = factory
            return Listener(self, address)

        return listen

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> None:
        """Connect to a listener."""
        address = f"{host}:{port}"
        if address not in self.listeners or address in self.unreachable:
            raise ConnectionRefusedError(address)
        client, server = Pipe(factory(), "10.0.0.1"), Pipe(self.listeners[address](), "10.0.0.2")
        client.peer, server.peer = server, client
        self.pairs.append((client, server))
        server.protocol.connection_made(server)
        client.protocol.connection_made(client)

    def open_pairs(self) -> list[tuple[Pipe, Pipe]]:
        """Connections of which at least one end is there."""
        self.pairs = [pair for pair in self.pairs if not (pair[0].gone and pair[1].gone)]
        return self.pairs

    def deliver(self, pair: tuple[Pipe, Pipe], size: int) -> None:
        """Move up to `size` bytes in each direction; an end learns that its peer has closed when all is read."""
        for source, target in (pair, pair[::-1]):
            data = bytes(source.sent[:size])
            del source.sent[: len(data)]
            if data and not target.closing:
                target.receive(data)
            if source.closing and not source.sent:
                target.lose()

    def cut(self, pair: tuple[Pipe, Pipe], *, ends: tuple[bool, bool] = (True, True)) -> None:
        """Break a connection; an end that is not told of it stays half open."""
        for end, told in zip(pair, ends, strict=True):
            end.sent.clear()
            if told:
                end.lose()


class Listener:
    """A listening address."""

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._address = address

    def close(self) -> None:
        """Refuse new connections."""
        self._network.listeners.pop(self._address, None)
