"""The options of metrics, health and logs that name server and broker share."""

from __future__ import annotations

import re

from ariane.settings.options import LONG_MAX, Option
from ariane.settings.remoting import PORT_MAX

LOG_LEVELS = ("debug", "info", "warning", "error")
AREA = re.compile(r"[a-z_]+(\.[a-z_]+)*")
AREAS = (  # names of loggers after `ariane.`; an area may go on with a dot, as in broker.delay
    "access", "admin", "app", "broker", "client", "dledger", "filter", "filterserver",
    "guarantee", "ha", "namesrv", "ops", "otlp", "remoting",
    "slow", "spark", "store", "testing",
)  # fmt: skip


def area_levels(text: str) -> dict[str, str]:
    """`store=debug;remoting=error` as a table; ValueError when a part is not an area with a level.

    >>> area_levels("store=debug; remoting=error")
    {'store': 'debug', 'remoting': 'error'}
    """
    levels = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        area, _, level = (side.strip() for side in part.partition("="))
        if not AREA.fullmatch(area) or level not in LOG_LEVELS:
            raise ValueError(part)
        levels[area] = level
    return levels


def _levels(text: str) -> str | None:
    try:
        area_levels(text)
    except ValueError as error:
        return f"expected areas and levels such as store=debug;remoting=error, got {str(error)!r} among them"
    unknown = [area for area in area_levels(text) if area.partition(".")[0] not in AREAS]
    return f"there is no area {unknown[0]}; areas are {', '.join(AREAS)}" if unknown else None


def _url(text: str) -> str | None:
    if not text or re.fullmatch(r"https?://[^\s/]+(/[^\s]*)?", text):
        return None
    return f"expected the address of a collector such as http://127.0.0.1:4318, got {text!r}"


def _headers(text: str) -> str | None:
    if not text or all(re.fullmatch(r"[A-Za-z0-9-]+=[^\r\n]*", part) for part in text.split(",")):
        return None
    return "expected headers such as Authorization=Bearer x,X-Scope=y"


def metrics_options(port: int) -> tuple[Option, ...]:
    """The HTTP endpoint for metrics and health, by the names that RocketMQ 5 gave it, and pushing; off by default."""
    return (
        Option("metricsExporterType", str, "DISABLE", choices=("DISABLE", "PROM"), own=True),
        Option("metricsPromExporterHost", str, "127.0.0.1", own=True),
        Option("metricsPromExporterPort", int, port, high=PORT_MAX, own=True),
        Option("otlpEndpoint", str, "", check=_url, own=True),
        Option("otlpHeaders", str, "", check=_headers, own=True, secret=True),
        Option("otlpInterval", int, 60000, low=1000, high=3600000, unit="ms", own=True),
    )


LOG_OPTIONS = (
    Option("logFile", str, "", own=True),
    Option("logFileMaxBytes", int, 104857600, low=65536, high=LONG_MAX, own=True),
    Option("logFileCount", int, 10, low=1, high=1000, own=True),
    Option("logFormat", str, "text", choices=("text", "json"), own=True),
    Option("logLevel", str, "", choices=("", *LOG_LEVELS), live=True, own=True),
    Option("logLevels", str, "", check=_levels, live=True, own=True),
    Option("adminLogFile", str, "", own=True),
    Option("slowRequestThreshold", int, 1000, live=True, unit="ms", own=True),
)
