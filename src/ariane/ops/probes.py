"""The pages /metrics, /health and /ready of a server."""

from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Final, NamedTuple

from ariane.ops.http import Page, Reply, json_reply, text_reply
from ariane.ops.metrics import CONTENT_TYPE, Registry

MOST_SCRAPES: Final = 2  # at a time


class Check(NamedTuple):
    """One condition of being ready."""

    name: str
    ok: bool
    reason: str = ""
    """The problem and what to do about it; a fact when the check passes."""


class Probes:
    """Answers scrapes and probes. `checks` says whether the server is ready; `facts` is what /health shows of it."""

    def __init__(
        self, registry: Registry, checks: Callable[[], Iterable[Check]], facts: Callable[[], dict[str, object]]
    ) -> None:
        self.registry = registry
        self._checks = checks
        self.facts = facts
        self._scrapes = 0
        self.started = False
        """Whether the figures can be read: false until the server is up."""

    @property
    def pages(self) -> dict[str, Page]:
        """The pages by path."""
        return {"/metrics": self.metrics, "/health": self.health, "/ready": self.ready}

    async def health(self) -> Reply:
        """200 while the event loop runs: if this probe fails, the process should be restarted."""
        return json_reply(200, {"status": "up", **self.facts()})

    async def ready(self) -> Reply:
        """200 when every check passes, else 503; the checks with their reasons."""
        checks = list(self._checks()) if self.started else [Check("started", False, "the server is starting")]
        ready = all(check.ok for check in checks)
        shown = {check.name: {"ok": check.ok, "reason": check.reason} for check in checks}
        return json_reply(200 if ready else 503, {"status": "ready" if ready else "not ready", "checks": shown})

    async def metrics(self) -> Reply:
        """All figures in Prometheus' text format."""
        if not self.started:
            return text_reply(503, "the server is starting")
        if self._scrapes >= MOST_SCRAPES:
            return text_reply(503, f"{MOST_SCRAPES} scrapes are under way; scrape less often")
        return Reply(200, CONTENT_TYPE, self._scrape())

    async def _scrape(self) -> AsyncGenerator[bytes, None]:
        self._scrapes += 1
        try:
            async for piece in self.registry.pieces():
                yield piece
        finally:
            self._scrapes -= 1
