"""A network that fails when told to: it stands between clients and servers, and drops, delays or cuts."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

CHUNK = 1 << 16


@dataclass
class Weather:
    """How it goes on a link."""

    delay: float = 0.0
    """Seconds by which everything comes later."""
    dropping: bool = False
    """Nothing comes through, and nobody is told."""
    down: bool = False
    """Connections are cut, and new ones refused."""


class Link:
    """A port in front of a server. Everything on its connections goes through `weather`."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.address = ""
        self.weather = Weather()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._better = asyncio.Event()

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

    def change(self, weather: Weather) -> None:
        """Let other weather come up."""
        self.weather = weather
        if weather.down:
            self.cut()
        self._better.set()
        self._better = asyncio.Event()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._keep(asyncio.current_task())
        if self.weather.down:
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
            with suppress(asyncio.CancelledError):  # closing; the streams of Python 3.11 complain of cancelled tasks
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
                if self.weather.delay:
                    await asyncio.sleep(self.weather.delay)
                while self.weather.dropping:
                    await self._better.wait()
                    data = b""  # what was sent in the storm is lost, and so is the rest of its connection
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
