"""Metrics, health and logs of a running server.

    http        a small HTTP server for pages: bounded, loopback by default
    metrics     families of figures, the registry that parts add theirs to, Prometheus' text
    probes      the pages /metrics, /health and /ready
    endpoint    starts HTTP pages and pushes as configured
    otlp        pushes the figures to an OpenTelemetry collector
    process     figures of the process and of its event loop
    servers     figures of ports and requests
    logs        log files with rotation, text or JSON, levels by area
    request_log the log of administrative changes and of slow requests

Name server, broker and applications use it; it knows none of them.
"""

from ariane.ops.http import HttpServer, Reply, json_reply, text_reply
from ariane.ops.metrics import Metric, Registry, Rows, label_text
from ariane.ops.probes import Check, Probes

__all__ = [
    "Check",
    "HttpServer",
    "Metric",
    "Probes",
    "Registry",
    "Reply",
    "Rows",
    "json_reply",
    "label_text",
    "text_reply",
]
