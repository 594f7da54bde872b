"""A network that fails on demand: proxies between clients and servers that drop, delay or cut."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

CHUNK = 1 << 16


@dataclass
class LinkFaults:
    """The faults of a link."""

    delay: float = 0.0
    """Seconds by which all data is delayed."""
    dropping: bool = False
    """Data is lost without a sign."""
    down: bool = False
    """Open connections are cut, new ones refused."""


class Link:
    """A port in front of a server, whose connections have `faults`."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.address = ""
        self.faults = LinkFaults()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close everything."""
        self.cut()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break every open connection."""
        for writer in list(self._open):
            writer.transport.abort()

    def change(self, faults: LinkFaults) -> None:
        """Replace the faults."""
        self.faults = faults
        if faults.down:
            self.cut()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._keep(asyncio.current_task())
        if self.faults.down:
            writer.transport.abort()
            return
        host, _, port = self.target.rpartition(":")
        try:
            server_reader, server_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, server_writer}
        try:
            with suppress(asyncio.CancelledError):  # at close; the streams of Python 3.11 log cancelled tasks
                await asyncio.gather(self._pump(reader, server_writer), self._pump(server_reader, writer))
        finally:
            for one in (writer, server_writer):
                one.transport.abort()
                self._open.discard(one)

    def _keep(self, task: "asyncio.Task[None] | None") -> None:
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if self.faults.delay:
                    await asyncio.sleep(self.faults.delay)
                while self.faults.dropping:
                    await self._changed.wait()
                    data = b""  # what was sent meanwhile is lost, and so is the rest of its connection
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
