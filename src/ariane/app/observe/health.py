"""The application's HTTP endpoint: `/health`, `/ready` and `/metrics`, answered by the event loop that does the work.

A loop that hangs does not answer, which is what a probe should see.
"""

from typing import TYPE_CHECKING

from ariane.app.clients import ConsumingClient
from ariane.app.errors import AppError
from ariane.errors import ArianeError, ListenFailed
from ariane.message import RETRY_PREFIX
from ariane.ops.http import HttpServer, Reply, json_reply, text_reply

if TYPE_CHECKING:
    from ariane.app.application import Ariane


class HealthServer:
    """Serves an application's state over HTTP."""

    def __init__(self, app: "Ariane", host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._port = port
        pages = {"/health": self._health, "/ready": self._ready, "/metrics": self._metrics}
        self._http = HttpServer(pages, host, port)

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._http.address

    async def start(self) -> None:
        """Listen; AppError when the port is taken."""
        try:
            await self._http.start()
        except ListenFailed as error:
            reason = getattr(error.__cause__, "strerror", None) or error
            raise AppError(
                f"the health endpoint cannot listen on {self._host}:{self._port} ({reason}): "
                "set health.port (ARIANE_HEALTH__PORT, --health-port), or health.enabled=false"
            ) from None

    async def stop(self) -> None:
        """Stop listening."""
        await self._http.stop()

    async def _health(self) -> Reply:
        """200 while the process works: a probe that fails here should restart it."""
        return json_reply(200, {"status": "up", "application": self._app.name})

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
        return json_reply(200 if ready else 503, {"status": "ready" if ready else "not ready", "listeners": listeners})

    async def _metrics(self) -> Reply:
        try:
            from ariane.app.observe.metrics import CONTENT_TYPE, exposition
        except ModuleNotFoundError:
            return text_reply(404, "metrics need prometheus-client: pip install 'ariane[app]'")
        return Reply(200, CONTENT_TYPE, await exposition(self._app))


async def _count_queues(consumer: ConsumingClient | None) -> int:
    """How many queues of its topics a listener holds: none while the cluster is not reached, or others have all."""
    try:
        queues = [] if consumer is None else await consumer.queues()
    except ArianeError:
        return 0  # it is starting or stopping
    return sum(not queue.topic.startswith(RETRY_PREFIX) for queue in queues)
