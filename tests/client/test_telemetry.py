"""Spans of OpenTelemetry, for programs that have set it up."""

from collections.abc import Iterator

import pytest

from ariane import ConsumeFrom, ConsumeStatus, Message, ReceivedMessage, aio
from ariane.client.observe.telemetry import find_telemetry
from ariane.testing.cluster import Cluster
from tests.client.inbox import OK, eventually
from tests.peers import unique

trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
exports = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
export = pytest.importorskip("opentelemetry.sdk.trace.export")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A tracer provider that keeps all spans."""
    exporter = exports.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def test_without_a_provider_there_are_no_spans() -> None:
    assert find_telemetry() is None


@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_a_consumption_is_a_child_of_the_send(ours: Cluster, spans: object, kind: str) -> None:
    topic = unique("topic")
    ours.create_topic(topic, queues=1)
    current: list[object] = []

    def listen(messages: list[ReceivedMessage]) -> ConsumeStatus:
        current.append(trace.get_current_span().get_span_context().span_id)
        return OK

    async def listen_too(messages: list[ReceivedMessage]) -> ConsumeStatus:
        return listen(messages)

    listener = listen if kind == "function" else listen_too
    options = {"name_servers": ours.name_servers, "consume_from": ConsumeFrom.FIRST}
    async with (
        aio.Producer(unique("p"), name_servers=ours.name_servers) as producer,
        aio.PushConsumer(unique("g"), topic, listener, **options),
    ):
        await producer.send(Message(topic, b"x", tags="T"))
        await eventually(lambda: len(spans.get_finished_spans()) == 2, "two spans")
    send, process = sorted(spans.get_finished_spans(), key=lambda span: span.start_time)
    assert (send.name, process.name) == (f"send {topic}", f"process {topic}")
    assert process.parent.span_id == send.context.span_id
    assert current == [process.context.span_id]
    assert send.attributes["messaging.system"] == "rocketmq"
    assert process.attributes["messaging.rocketmq.message.tag"] == "T"
