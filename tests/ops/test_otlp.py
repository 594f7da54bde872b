"""Pushing the figures to an OpenTelemetry collector."""

import asyncio
import gzip
import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ariane.broker.config import BrokerOptions
from ariane.errors import ConfigError
from ariane.ops import otlp
from ariane.ops.metrics import Registry
from ariane.ops.otlp import OtlpPush
from tests.broker.talk import Talk, settled


class Collector:
    """Takes what is pushed, as a collector does."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        taker = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/metrics":
                    taker.bodies.append(json.loads(gzip.decompress(data)))
                    taker.headers.append(dict(self.headers))
                self.send_response(taker.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def points(self) -> dict[str, list[tuple[dict[str, str], Any]]]:
        """Attributes and value of every point, by name."""
        found: dict[str, list[tuple[dict[str, str], Any]]] = {}
        for body in self.bodies:
            for metric in body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]:
                for point in (metric.get("gauge") or metric["sum"])["dataPoints"]:
                    labels = {item["key"]: item["value"]["stringValue"] for item in point["attributes"]}
                    found.setdefault(metric["name"], []).append((labels, point.get("asInt", point.get("asDouble"))))
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    taking = Collector()
    thread = threading.Thread(target=taking.server.serve_forever)
    thread.start()
    try:
        yield taking
    finally:
        taking.server.shutdown()
        thread.join()
        taking.server.server_close()


def push_to(collector: Collector, registry: Registry, headers: str = "") -> OtlpPush:
    options = BrokerOptions.load(f"otlpEndpoint = {collector.url}/\notlpHeaders = {headers}")
    return OtlpPush(registry, options, lambda: {"name": "broker-a"}, lambda: True)


async def test_figures_arrive_with_their_kind_labels_and_values(collector: Collector) -> None:
    odd = 'a"b\\c\nd'
    registry = Registry()
    registry.gauges("gauge", "A gauge", "name", lambda: {odd: 1.5, "none": float("nan"), "most": float("inf")})
    registry.counter("things_total", "A counter", lambda: 7)
    assert await push_to(collector, registry, "Authorization=Bearer x").push()
    [body] = collector.bodies
    assert collector.headers[0]["Authorization"] == "Bearer x"
    resource = {
        item["key"]: item["value"]["stringValue"] for item in body["resourceMetrics"][0]["resource"]["attributes"]
    }
    assert (resource["service.name"], resource["ariane.name"]) == ("ariane", "broker-a")
    gauge, counter = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    assert {labels["name"]: number for labels, number in collector.points()["gauge"]} == {
        odd: 1.5,
        "none": "NaN",
        "most": "Infinity",
    }
    assert "sum" not in gauge
    assert (counter["sum"]["isMonotonic"], counter["sum"]["aggregationTemporality"]) == (True, 2)
    [point] = counter["sum"]["dataPoints"]
    assert point["asInt"] == "7"
    assert int(point["startTimeUnixNano"]) <= int(point["timeUnixNano"])


async def test_protobuf_reads_what_is_pushed(collector: Collector) -> None:
    messages = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    registry = Registry()
    registry.gauges("gauge", "A gauge", "name", lambda: {"a": 1.5, "none": float("nan")})
    registry.counter("things_total", "A counter", lambda: 7)
    await push_to(collector, registry).push()
    request = json_format.Parse(json.dumps(collector.bodies[0]), messages.ExportMetricsServiceRequest())
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    assert [metric.name for metric in metrics] == ["gauge", "things_total"]
    assert metrics[1].sum.data_points[0].as_int == 7


async def test_many_points_come_in_several_requests_and_none_is_lost(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "POINTS", 10)
    registry = Registry()
    for family in ("first", "second", "third"):
        registry.gauges(family, "Rows", "name", lambda: {str(number): number for number in range(25)})
    assert await push_to(collector, registry).push()
    assert len(collector.bodies) == 8
    assert all({number for _, number in rows} == set(map(str, range(25))) for rows in collector.points().values())
    assert set(collector.points()) == {"first", "second", "third"}


async def test_a_collector_that_refuses_is_logged_once_and_when_it_takes_again(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ariane.otlp")
    registry = Registry()
    registry.gauge("one", "One", lambda: 1)
    push = push_to(collector, registry)
    collector.status = 503
    assert [await push.push() for _ in range(3)] == [False, False, False]
    collector.status = 200
    assert await push.push()
    first, second = [record.getMessage() for record in caplog.records]
    assert "does not take metrics: 503 Service Unavailable" in first
    assert "takes metrics again" in second


async def test_a_broker_pushes_the_figures_that_it_shows(collector: Collector, talk_to: Any) -> None:
    talk: Talk = await talk_to(otlpEndpoint=collector.url, otlpInterval=1000)
    await talk.send_ok("orders")
    await asyncio.to_thread(lambda: None)
    await settled(
        lambda: {"folder": "store"} in [labels for labels, _ in collector.points().get("ariane_disk_used_ratio", [])]
    )
    await talk.broker.monitor.endpoint.push.push()
    assert ("orders", "1") in {(labels["topic"], end) for labels, end in collector.points()["rocketmq_producer_offset"]}
    assert "Authorization" not in collector.headers[0]


@pytest.mark.parametrize("value", ["collector:4318", "ftp://x", "http://", "http://a b"])
def test_a_wrong_address_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="otlpEndpoint: expected the address of a collector"):
        BrokerOptions.load(f"otlpEndpoint = {value}")


def test_headers_are_secret_and_checked() -> None:
    options = BrokerOptions.load("otlpHeaders = Authorization=Bearer x")
    assert "Bearer" not in str(options.as_properties())
    with pytest.raises(ConfigError, match="expected headers"):
        BrokerOptions.load("otlpHeaders = Authorization")
