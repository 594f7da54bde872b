"""The application as an AsyncAPI 3.0 document: its topics, what it sends and receives there, and the payloads."""

import inspect
import json
from typing import TYPE_CHECKING, Any, Final

from ariane import ReceivedMessage
from ariane.app.clients import name_servers_of
from ariane.app.payload import BYTES, JSON, TEXT, is_model, name_of, schema_of
from ariane.app.send.outgoing import parse_destination
from ariane.message import dead_letter_topic

if TYPE_CHECKING:
    from ariane.app.application import Ariane
    from ariane.app.listen.listener import Listener

VERSION: Final = "3.0.0"
Document = dict[str, Any]


def describe_application(app: "Ariane", version: str = "1.0.0") -> Document:
    """The document, as plain objects."""
    document: Document = {
        "asyncapi": VERSION,
        "info": {"title": app.name, "version": version},
        "defaultContentType": JSON,
        "servers": {},
        "channels": {},
        "operations": {},
        "components": {"messages": {}, "schemas": {}},
    }
    builder = _Builder(document)
    builder.server("main", name_servers_of(app.settings.cluster))
    for name, cluster in app.settings.clusters.items():
        builder.server(name, name_servers_of(cluster))
    listeners = [*app.listeners, *app.bindings.listeners(app.settings)]
    for listener in listeners:
        _receive(builder, app, listener)
        for publication in listener.publications:
            topic, _ = parse_destination(publication.destination)
            builder.operation(
                f"{listener.name}-to-{topic}", "send", topic, publication.cluster, _returned(listener.call.returns)
            )
    for transaction in app.transaction_listeners:
        builder.message(transaction.payload)
    for name, binding in app.bindings.outputs(app.settings):
        topic, _ = parse_destination(binding.destination)
        if all(listener.name != name for listener in listeners):
            kind = _returned(app.bindings.returned_type(name))
            builder.operation(f"{name}-to-{topic}", "send", topic, binding.cluster, kind)
    return document


def to_json_text(document: Document) -> str:
    """The document as JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _receive(builder: "_Builder", app: "Ariane", listener: "Listener[..., Any]") -> None:
    settings = listener.settings(app.settings)
    kind = listener.call.payload if listener.call.takes_payload else ReceivedMessage
    notes = {
        "x-group": settings.group,
        "x-consume-mode": "orderly" if settings.orderly else "concurrent",
        "x-message-model": "broadcasting" if settings.broadcast else "clustering",
        "x-dead-letters": dead_letter_topic(settings.group or ""),
    }
    notes |= {"x-sql": settings.sql} if settings.sql is not None else {"x-tags": settings.tags}
    text = inspect.getdoc(listener.handler)
    for topic in listener.topics_of(settings):
        name = listener.name if len(listener.topics) == 1 else f"{listener.name}-{topic}"
        operation = builder.operation(name, "receive", topic, settings.cluster, kind)
        operation.update(notes)
        if text and listener.handler.__doc__:
            operation["description"] = text
        if settings.reply:
            reply = builder.message(_returned(listener.call.returns))
            channel = builder.channel(f"{topic}-reply", None, reply)
            channel["address"] = None
            operation["reply"] = {"channel": {"$ref": f"#/channels/{topic}-reply"}}


def _returned(hint: Any) -> Any:
    return Any if hint in (inspect.Signature.empty, None) else hint


class _Builder:
    """Adds parts to a document, each once."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def server(self, name: str, addresses: tuple[str, ...]) -> None:
        self._document["servers"][name] = {
            "host": addresses[0],
            "protocol": "rocketmq",
            "description": "name servers: " + "; ".join(addresses),
        }

    def message(self, kind: Any) -> str:
        """The name of a payload's message among the components."""
        if kind is ReceivedMessage:
            name, content, schema = "AnyMessage", BYTES, schema_of(bytes)
        elif kind is str:
            name, content, schema = "Text", TEXT, schema_of(str)
        elif kind is bytes:
            name, content, schema = "Bytes", BYTES, schema_of(bytes)
        else:
            name, content, schema = _identifier(kind), JSON, schema_of(kind)
        components = self._document["components"]
        if name not in components["messages"]:
            components["schemas"][name] = _inlined(schema, components["schemas"])
            components["messages"][name] = {
                "name": name,
                "contentType": content,
                "payload": {"$ref": f"#/components/schemas/{name}"},
            }
        return name

    def channel(self, topic: str, cluster: str | None, message: str) -> dict[str, Any]:
        channel: dict[str, Any] = self._document["channels"].setdefault(topic, {"address": topic, "messages": {}})
        if cluster is not None:
            channel["servers"] = [{"$ref": f"#/servers/{cluster}"}]
        channel["messages"][message] = {"$ref": f"#/components/messages/{message}"}
        return channel

    def operation(self, name: str, action: str, topic: str, cluster: str | None, kind: Any) -> dict[str, Any]:
        message = self.message(kind)
        self.channel(topic, cluster, message)
        operation: dict[str, Any] = {
            "action": action,
            "channel": {"$ref": f"#/channels/{topic}"},
            "messages": [{"$ref": f"#/channels/{topic}/messages/{message}"}],
        }
        self._document["operations"][name] = operation
        return operation


def _identifier(kind: Any) -> str:
    if is_model(kind):
        return str(kind.__name__)
    return "".join(part if part.isalnum() else "_" for part in name_of(kind)).strip("_") or "Payload"


def _inlined(schema: dict[str, Any], shared: dict[str, Any]) -> Any:
    """A schema whose definitions are moved among the document's schemas."""
    definitions = schema.pop("$defs", {})
    text = json.dumps(schema).replace('"#/$defs/', '"#/components/schemas/')
    for name, inner in definitions.items():
        shared.setdefault(name, json.loads(json.dumps(inner).replace('"#/$defs/', '"#/components/schemas/')))
    found = json.loads(text)
    if set(found) == {"$ref"}:  # msgspec describes a struct by a reference to itself
        return shared[found["$ref"].rsplit("/", 1)[1]]
    return found
