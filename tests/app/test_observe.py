"""Spans from producer to handler, log lines with their message, and the health endpoint against odd clients."""

import asyncio
import json
import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ariane.app import AppError, Ariane, Context
from ariane.app.observe.health import HealthServer
from ariane.app.observe.logs import JsonFormatter, MessageFilter
from ariane.testing.app import TestApp
from ariane.testing.cluster import Cluster
from tests.app.payloads import Inbox, Order
from tests.peers import unique


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    from opentelemetry import trace

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.mark.parametrize("plain", [False, True])
async def test_a_handlers_span_is_a_child_of_the_senders(
    ours: Cluster, spans: InMemorySpanExporter, plain: bool
) -> None:
    from opentelemetry import trace

    topic, inbox = unique("topic"), Inbox()
    ours.create_topic(topic, queues=1)
    app = Ariane(name_servers=ours.name_servers, consumer={"start_at": "first"})

    def handle(order: Order, context: Context) -> None:
        inbox.put(trace.get_current_span().get_span_context().span_id)
        if context.reconsume_times == 0:
            raise ValueError("unlucky")

    async def handle_in_loop(order: Order, context: Context) -> None:
        handle(order, context)

    app.listener(topic, group=unique("group"), retry_delay=1)(handle if plain else handle_in_loop)
    async with app:
        await app.send(topic, Order(id=1, item="tea"))
        seen = await inbox.take(2)
    finished = {span.context.span_id: span for span in spans.get_finished_spans() if span.context is not None}
    first = finished[seen[0]]
    assert first.parent is not None
    assert finished[first.parent.span_id].name == f"send {topic}"
    assert not first.status.is_ok
    assert any(event.name == "exception" and "unlucky" in str(event.attributes) for event in first.events)
    assert finished[seen[1]].status.is_ok


async def test_a_line_logged_in_a_handler_names_its_message() -> None:
    app, log = Ariane(), logging.getLogger("shop")
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Keep()
    handler.addFilter(MessageFilter())
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)

    @app.listener("orders", group="g")
    def reserve(order: Order) -> None:
        log.warning("reserving %s", order.item)

    try:
        async with TestApp(app) as test:
            await app.send("orders", Order(id=1, item="tea"), keys=["o-1"])
        log.warning("outside")
    finally:
        log.removeHandler(handler)
    inside, outside = map(json.loads, lines)
    assert inside["message"] == "reserving tea"
    assert (inside["listener"], inside["topic"], inside["message_keys"]) == ("reserve", "orders", ["o-1"])
    assert inside["message_id"] == test.sent("orders")[0].message_id
    assert "message_id" not in outside


async def test_the_health_endpoint_bears_odd_requests() -> None:
    app = Ariane()
    server = HealthServer(app, "127.0.0.1", 0)
    await server.start()
    host, port = server.address.split(":")

    async def ask(request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), 60)
        except ConnectionError:
            return b""
        finally:
            writer.close()

    try:
        assert (await ask(b"GET /health HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        assert (await ask(b"GET /ready?x=1 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503")
        assert (await ask(b"HEAD /health HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
        assert (await ask(b"POST /health HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
        assert (await ask(b"\xff\xfe\r\n\r\n")).startswith(b"HTTP/1.1 400")
        assert await ask(b"GET /health") == b""
        assert await ask(b"G" * 100_000 + b"\r\n\r\n") == b""
        second = HealthServer(app, host, int(port))
        with pytest.raises(AppError, match=r"health\.port"):
            await second.start()
    finally:
        await server.stop()
