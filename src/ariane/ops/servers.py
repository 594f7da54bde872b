"""Figures of the ports of a server and of the requests that are logged."""

from collections.abc import Callable, Mapping
from typing import Protocol

from ariane.ops.metrics import Registry
from ariane.ops.request_log import RequestLog
from ariane.remoting import Server


def add_servers(registry: Registry, servers: Callable[[], Mapping[str, Server]]) -> None:
    """Connections by port."""
    registry.gauges(
        "ariane_connections",
        "Open connections by port",
        "port",
        lambda: {name: len(server.connections) for name, server in servers().items()},
    )
    registry.gauge(
        "ariane_buffered_bytes",
        "Bytes of unfinished requests, running requests and unread answers",
        lambda: sum(server.buffered for server in servers().values()),
    )


def add_requests(registry: Registry, requests: RequestLog) -> None:
    """Slow requests and changes."""
    registry.counter("ariane_slow_requests_total", "Requests over slowRequestThreshold", lambda: requests.slow)
    registry.counter("ariane_changes_total", "Changes that administrators asked for", lambda: requests.changes)


class AccessFigures(Protocol):
    """What access control counts."""

    @property
    def refused(self) -> Mapping[str, int]: ...

    @property
    def reload_failures(self) -> int: ...

    @property
    def broken_files(self) -> int: ...


def add_access(registry: Registry, figures: AccessFigures) -> None:
    """Requests that access control refused, and the state of its rules."""
    registry.refusals(lambda: {f"access: {reason}": count for reason, count in figures.refused.items()})
    registry.gauge("ariane_access_broken_files", "Files of rules that are broken", lambda: figures.broken_files)
    registry.counter(
        "ariane_access_reload_failures_total", "Changed rules not taken over", lambda: figures.reload_failures
    )
