"""The supervisor: starts the members, serves the control socket, and ends with all of them."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from ariane.cli.local_cluster.layout import Member
from ariane.cli.local_cluster.members import MemberFailed, Running, is_ready
from ariane.cli.screen import console
from ariane.errors import ArianeError

SOCKET: Final = "control.sock"


class Supervisor:
    """Runs members until a signal or `ariane cluster down`; a member that ends stays down until it is restarted."""

    def __init__(self, members: list[Member], folder: Path) -> None:
        self._members = {one.name: Running(one, folder) for one in members}
        self._socket = folder / SOCKET
        self._turn = asyncio.Lock()  # one command at a time
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Start all, serve, and stop all at the end, brokers before the name server."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        self._socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve, self._socket)
        self._socket.chmod(0o600)
        try:
            starting = asyncio.ensure_future(self._start())
            stopping = asyncio.ensure_future(self._stopped.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                console.print("All members are ready; Ctrl-C or `ariane cluster down` stops them.")
            else:
                starting.cancel()
            await stopping
        finally:
            server.close()
            console.print("Stopping ...")
            names, *brokers = self._members.values()
            await asyncio.gather(*(one.stop() for one in brokers))
            await names.stop()
            self._socket.unlink(missing_ok=True)
            console.print("Stopped.")

    async def _start(self) -> None:
        async with self._turn:
            for one in self._members.values():
                await one.start()
                console.print(f"  {one.member.name:12} {one.member.role:14} 127.0.0.1:{one.member.port}  starting")
            await asyncio.gather(*(one.await_ready() for one in self._members.values()))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = json.loads(await reader.readline())
            try:
                answer = {"done": await COMMANDS[request["command"]](self, request)}
            except ArianeError as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError, KeyError, TypeError):
            pass  # no request of ours, or its sender has gone
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _find(self, name: str) -> Running:
        try:
            return self._members[name]
        except KeyError:
            raise MemberFailed(f"no member is called {name}; there are {', '.join(self._members)}") from None

    async def _status(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        ready = await asyncio.gather(
            *(asyncio.to_thread(is_ready, one.member.metrics_port) for one in self._members.values())
        )
        rows = []
        for one, answered in zip(self._members.values(), ready, strict=True):
            code = None if one.process is None else one.process.returncode
            state = "ready" if answered and one.is_running else "not ready" if one.is_running else "down"
            pid = one.process.pid if one.process is not None and one.is_running else None
            rows.append(
                {"member": one.member.name, "role": one.member.role, "address": f"127.0.0.1:{one.member.port}",
                 "state": state, "pid": pid, "exit_code": code, "log": str(one.log)}
            )  # fmt: skip
        return rows

    async def _kill(self, request: dict[str, Any]) -> str:
        one = self._find(request["member"])
        async with self._turn:
            if not one.is_running:
                raise MemberFailed(f"{one.member.name} is down already; `ariane cluster restart` starts it")
            await one.stop(signal.SIGKILL)
        return f"{one.member.name} is killed"

    async def _stop(self, request: dict[str, Any]) -> str:
        one = self._find(request["member"])
        async with self._turn:
            await one.stop()
        return f"{one.member.name} is stopped"

    async def _restart(self, request: dict[str, Any]) -> str:
        name = request.get("member")
        chosen = list(self._members.values()) if name is None else [self._find(name)]
        async with self._turn:
            for one in chosen:  # the next one only when this one is ready: a slave follows, a member has a leader
                await one.stop()
                await one.start(request.get("python"))
                await one.await_ready()
        return f"{', '.join(one.member.name for one in chosen)}: ready again"

    async def _down(self, request: dict[str, Any]) -> str:
        self._stopped.set()
        return "stopping"


COMMANDS: Final[dict[str, Callable[[Supervisor, dict[str, Any]], Awaitable[Any]]]] = {
    "status": Supervisor._status,
    "kill": Supervisor._kill,
    "stop": Supervisor._stop,
    "restart": Supervisor._restart,
    "down": Supervisor._down,
}
