"""The application's HTTP endpoint: `/health`, `/ready` and `/metrics`, answered by the event loop that does the work.

A loop that hangs does not answer, which is what a probe should see.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ariane.app.clients import ConsumingClient
from ariane.app.errors import AppError
from ariane.errors import ArianeError
from ariane.message import RETRY_PREFIX

if TYPE_CHECKING:
    from ariane.app.application import Ariane

LONGEST_HEAD: Final = 8192
PATIENCE: Final = 5.0  # seconds for a request to come

Reply = tuple[int, str, bytes]


class HealthServer:
    """Serves an application's state over HTTP/1.1, one request a connection."""

    def __init__(self, app: "Ariane", host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._pages: dict[str, Callable[[], Awaitable[Reply]]] = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._metrics,
        }

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def start(self) -> None:
        """Listen; AppError when the port is taken."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=LONGEST_HEAD)
        except OSError as error:
            raise AppError(
                f"the health endpoint cannot listen on {self._host}:{self._port} ({error.strerror}): "
                "set health.port (ARIANE_HEALTH__PORT, --health-port), or health.enabled=false"
            ) from None

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head.split(b"\r\n", 1)[0]))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> bytes:
        method, _, rest = line.decode("latin-1").partition(" ")
        path = rest.split(" ")[0].split("?")[0]
        if not rest:
            reply = _text(400, "no HTTP request")
        elif method not in ("GET", "HEAD"):
            reply = _text(405, "only GET and HEAD")
        elif (page := self._pages.get(path)) is None:
            reply = _text(404, f"there are {', '.join(self._pages)}")
        else:
            reply = await page()
        status, kind, body = reply
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == "HEAD" else body)

    async def _health(self) -> Reply:
        """200 while the process works: a probe that fails here should restart it."""
        return _json(200, {"status": "up", "application": self._app.name})

    async def _ready(self) -> Reply:
        """200 when every listener was started; 503 before that and while the application stops."""
        listeners = {}
        for running in self._app.running:
            figures = running.listener.figures
            listeners[running.listener.name] = {
                "topics": running.listener.topics_of(running.settings),
                "group": running.settings.group,
                "queues": await _count_queues(running.listener.consumer),
                "handled": figures.handled,
                "failed": figures.failed,
                "in_flight": figures.in_flight,
            }
        ready = self._app.is_ready
        return _json(200 if ready else 503, {"status": "ready" if ready else "not ready", "listeners": listeners})

    async def _metrics(self) -> Reply:
        try:
            from ariane.app.observe.metrics import CONTENT_TYPE, exposition
        except ModuleNotFoundError:
            return _text(404, "metrics need prometheus-client: pip install 'ariane[app]'")
        return 200, CONTENT_TYPE, await exposition(self._app)


async def _count_queues(consumer: ConsumingClient | None) -> int:
    """How many queues of its topics a listener holds: none while the cluster is not reached, or others have all."""
    try:
        queues = [] if consumer is None else await consumer.queues()
    except ArianeError:
        return 0  # it is starting or stopping
    return sum(not queue.topic.startswith(RETRY_PREFIX) for queue in queues)


def _json(status: int, value: object) -> Reply:
    return status, "application/json", json.dumps(value).encode()


def _text(status: int, text: str) -> Reply:
    return status, "text/plain; charset=utf-8", f"{text}\n".encode()
