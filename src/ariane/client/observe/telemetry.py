"""OpenTelemetry spans for sends and listener calls, in one trace, where a tracer provider is set up.

Names follow OpenTelemetry's conventions for messaging; the context travels in the message's properties.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ariane.client.observe.hooks import ConsumeContext, ConsumeHook, SendContext, SendHook
from ariane.message import KEYS, TAGS, ReceivedMessage

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

SYSTEM: dict[str, str | int] = {"messaging.system": "rocketmq"}
_SPAN, _TOKEN = "telemetry span", "telemetry token"


def find_telemetry() -> "Telemetry | None":
    """Hooks that create spans; None unless the program set up a tracer provider before it started the client."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Telemetry(provider.get_tracer("ariane"))


def with_telemetry(hooks: Sequence[SendHook]) -> tuple[SendHook, ...]:
    """The hooks, preceded by spans where telemetry is set up."""
    found = find_telemetry()
    return tuple(hooks) if found is None else (found, *hooks)


def consume_with_telemetry(hooks: Sequence[ConsumeHook]) -> tuple[ConsumeHook, ...]:
    """The hooks, preceded by spans where telemetry is set up."""
    found = find_telemetry()
    return tuple(hooks) if found is None else (found, *hooks)


class Telemetry:
    """Spans around sends and listener calls."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    def before_send(self, context: SendContext) -> None:
        """Start a span, and inject its context into the message's properties."""
        from opentelemetry import propagate, trace

        attributes: dict[str, str | int] = SYSTEM | {
            "messaging.operation.type": "send",
            "messaging.destination.name": context.queue.topic,
            "messaging.client.id": context.client_address,
            "messaging.message.id": context.message_id,
            "messaging.message.body.size": len(context.message.body),
            "messaging.destination.partition.id": str(context.queue.queue_id),
            "server.address": context.broker_address,
        }
        attributes |= _tags(context.message.properties)
        span = self._tracer.start_span(
            f"send {context.queue.topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes
        )
        propagate.inject(context.properties, trace.set_span_in_context(span))
        context.notes[_SPAN] = span

    def after_send(self, context: SendContext) -> None:
        """End the span."""
        self._end(context.notes.get(_SPAN), context.error)

    def before_consume(self, context: ConsumeContext) -> None:
        """Start a span as a child of the sender's, and make it the current one for the listener."""
        from opentelemetry import context as contexts
        from opentelemetry import trace

        parents = [self._parent(message) for message in context.messages]
        first = context.messages[0]
        attributes: dict[str, str | int] = SYSTEM | {
            "messaging.operation.type": "process",
            "messaging.destination.name": first.topic,
            "messaging.consumer.group.name": context.group,
            "messaging.client.id": context.client_id,
            "messaging.batch.message_count": len(context.messages),
        }
        if len(context.messages) == 1:
            attributes |= {"messaging.message.id": first.message_id} | _tags(first.properties)
        links = [trace.Link(trace.get_current_span(parent).get_span_context()) for parent in parents[1:]]
        span = self._tracer.start_span(f"process {first.topic}", parents[0], trace.SpanKind.CONSUMER, attributes, links)
        context.notes[_SPAN] = span
        context.notes[_TOKEN] = contexts.attach(trace.set_span_in_context(span))

    def after_consume(self, context: ConsumeContext) -> None:
        """End the span."""
        from opentelemetry import context as contexts

        token: Any = context.notes.get(_TOKEN)
        contexts.detach(token)
        self._end(context.notes.get(_SPAN), None if context.success else RuntimeError(context.returned))

    @staticmethod
    def _parent(message: ReceivedMessage) -> Any:
        from opentelemetry import propagate

        return propagate.extract(message.properties)

    @staticmethod
    def _end(span: Any, error: Exception | None) -> None:
        from opentelemetry.trace import Status, StatusCode

        if error is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()


def _tags(properties: dict[str, str]) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    if TAGS in properties:
        found["messaging.rocketmq.message.tag"] = properties[TAGS]
    if KEYS in properties:
        found["messaging.rocketmq.message.keys"] = properties[KEYS]
    return found
