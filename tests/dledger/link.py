"""Links between the members of a group that a test can drop or stall."""

import asyncio
import contextlib

from tests.peers import free_port


class Link:
    """A TCP proxy from one member to another. `drop` closes it, `stall` keeps its connections and forwards nothing."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._dropped = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)

    async def stop(self) -> None:
        self.drop()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop(self) -> None:
        """Close the connections, and each new one at once."""
        self._dropped = True
        for task in self._tasks:
            task.cancel()

    def stall(self) -> None:
        """Hold back all bytes; they arrive late, after `heal`."""
        self._flows.clear()

    def heal(self) -> None:
        """Forward again."""
        self._dropped = False
        self._flows.set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            if self._dropped:
                return
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
            with contextlib.closing(other_writer):
                pumps = [
                    asyncio.create_task(self._pump(reader, other_writer)),
                    asyncio.create_task(self._pump(other_reader, writer)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
