"""Pushes the figures to an OpenTelemetry collector: OTLP over HTTP, encoded as JSON, which needs no package.

A push is several requests of a bounded number of points, so that a large broker's figures are never whole in memory.
"""

import asyncio
import gzip
import json
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ariane.ops.metrics import SLICE, Metric, Registry
from ariane.version import VERSION

log = logging.getLogger("ariane.otlp")

PATH: Final = "/v1/metrics"
POINTS: Final = 2000  # of one request
TIMEOUT: Final = 10.0  # seconds for a request
CUMULATIVE: Final = 2
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Point = dict[str, Any]
Post = Callable[[bytes], None]


class OtlpSettings(Protocol):
    """The part of a server's configuration that is about pushing."""

    @property
    def otlp_endpoint(self) -> str: ...

    @property
    def otlp_headers(self) -> str: ...

    @property
    def otlp_interval_ms(self) -> int: ...


class OtlpPush:
    """Pushes all figures of a registry at an interval. A failure is logged once, and so is the recovery."""

    def __init__(
        self,
        registry: Registry,
        options: OtlpSettings,
        facts: Callable[[], Mapping[str, object]],
        ready: Callable[[], bool],
    ) -> None:
        self.enabled = bool(options.otlp_endpoint)
        self._registry = registry
        self._url = options.otlp_endpoint.rstrip("/") + PATH
        self._headers = dict(part.split("=", 1) for part in options.otlp_headers.split(",") if part)
        self._interval = options.otlp_interval_ms / 1000
        self._facts = facts
        self._ready = ready
        self._started_ns = time.time_ns()
        self._failing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Push at every interval from now on, if an endpoint is configured."""
        if self.enabled:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="push metrics")

    async def stop(self) -> None:
        """Stop pushing."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if self._ready():
                await self.push()

    async def push(self) -> bool:
        """Push once; False when the collector did not take it."""
        try:
            async for metrics in self._batches():
                await asyncio.to_thread(self._post, metrics)
        except (OSError, ValueError) as error:  # ValueError: what urllib says of a wrong URL or header
            if not self._failing:
                reason = f"{error.code} {error.reason}" if isinstance(error, HTTPError) else str(error)
                log.warning("%s does not take metrics: %s; further failures are not logged", self._url, reason)
            self._failing = True
            return False
        if self._failing:
            log.warning("%s takes metrics again", self._url)
        self._failing = False
        return True

    async def _batches(self) -> AsyncIterator[list[Any]]:
        """All families, a bounded number of points at a time; the event loop works between."""
        now, began = str(time.time_ns()), time.perf_counter()
        metrics: list[Any] = []
        count = 0
        for found in self._registry.collect():
            if found is not None:
                metric, rows = found
                points: list[Point] = []
                for labels, value in rows:
                    points.append(self._point(metric, labels, value, now))
                    count += 1
                    if count >= POINTS:
                        yield [*metrics, _family(metric, points)]
                        metrics, points, count = [], [], 0
                    if time.perf_counter() - began >= SLICE:
                        await asyncio.sleep(0)
                        began = time.perf_counter()
                if points:
                    metrics.append(_family(metric, points))
            elif time.perf_counter() - began >= SLICE:
                await asyncio.sleep(0)
                began = time.perf_counter()
        if metrics:
            yield metrics

    def _point(self, metric: Metric, labels: str, value: float, now: str) -> Point:
        point: Point = {"timeUnixNano": now, "attributes": _attributes(dict(_LABEL.findall(labels)))}
        if metric.kind == "counter":
            point["startTimeUnixNano"] = str(self._started_ns)
        if isinstance(value, int):
            point["asInt"] = str(value)
        elif math.isfinite(value):
            point["asDouble"] = value
        else:
            point["asDouble"] = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return point

    def _post(self, metrics: list[Any]) -> None:
        facts = {str(name): str(value) for name, value in self._facts().items()}
        resource = {
            "service.name": "ariane",
            "service.version": VERSION,
            **{f"ariane.{k}": v for k, v in facts.items()},
        }
        body = {
            "resourceMetrics": [
                {
                    "resource": {"attributes": _attributes(resource)},
                    "scopeMetrics": [{"scope": {"name": "ariane", "version": VERSION}, "metrics": metrics}],
                }
            ]
        }
        data = gzip.compress(json.dumps(body).encode(), 1)
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", **self._headers}
        with urlopen(Request(self._url, data, headers, method="POST"), timeout=TIMEOUT) as answer:
            answer.read(65536)


def _family(metric: Metric, points: list[Point]) -> Any:
    shape: dict[str, Any] = {"dataPoints": points}
    if metric.kind == "counter":
        return {
            "name": metric.name,
            "description": metric.help,
            "sum": {**shape, "aggregationTemporality": CUMULATIVE, "isMonotonic": True},
        }
    return {"name": metric.name, "description": metric.help, "gauge": shape}


def _attributes(labels: Mapping[str, str]) -> list[Any]:
    return [
        {"key": key, "value": {"stringValue": re.sub(r'\\[\\"n]', lambda found: _ESCAPES[found[0]], value)}}
        for key, value in labels.items()
    ]
