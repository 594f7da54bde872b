"""From a destination and a payload to a message: what the template sends."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

from ariane import Message, MessageQueue
from ariane.app.clients import Selector
from ariane.app.errors import AppError
from ariane.app.payload import CONTENT_TYPE, Payloads

T = TypeVar("T")
HeaderValue = str | int | float | bool


class MessageKeywords(TypedDict, total=False):
    """What a message has beside its payload."""

    keys: str | Iterable[str]
    """Keys by which the message can be looked up at the brokers."""
    headers: Mapping[str, HeaderValue]
    """Become the message's properties, as text."""
    content_type: str
    """Overrides the content type that follows from the payload's type."""
    delay_level: int
    """One of the broker's delay levels, 1 to 18."""
    delay: float
    """Seconds until the delivery; needs a broker with timers (RocketMQ 5)."""
    deliver_at: datetime | int
    """Time of the delivery, or milliseconds since 1970; needs a broker with timers (RocketMQ 5)."""
    wait_store: bool
    """False: the broker answers before a flush or a slave is done."""


class PlaceKeywords(TypedDict, total=False):
    """Which queue a message goes to, and how long that may take."""

    hash_key: str | int
    """Messages with equal keys go to one queue, in order."""
    queue: MessageQueue
    selector: Selector
    timeout: float
    """Seconds."""


class SendKeywords(MessageKeywords, PlaceKeywords, total=False):
    """All keywords of the template's sends."""


@dataclass(frozen=True, slots=True)
class Envelope(Generic[T]):
    """A payload with what belongs to its message: for batches, publishers and replies.

    >>> Envelope({"id": 1}, keys="o-1", headers={"region": "eu"}).keys
    'o-1'
    """

    payload: T
    tag: str | None = None
    keys: str | Iterable[str] | None = None
    headers: Mapping[str, HeaderValue] | None = None
    content_type: str | None = None
    delay_level: int = 0
    delay: float | None = None
    deliver_at: datetime | int | None = None
    wait_store: bool = True


def parse_destination(destination: str) -> tuple[str, str | None]:
    """Topic and tag of `topic` or `topic:tag`.

    >>> parse_destination("orders:paid")
    ('orders', 'paid')
    """
    topic, colon, tag = destination.partition(":")
    if not topic or (colon and not tag):
        raise AppError(f"{destination!r} is no destination: write 'topic' or 'topic:tag'")
    return topic, tag or None


def build_message(
    payloads: Payloads, destination: str, payload: Any, keywords: MessageKeywords | None = None
) -> Message:
    """The message to send. Keywords win over an envelope's own fields."""
    topic, tag = parse_destination(destination)
    given: dict[str, Any] = dict(keywords or {})
    if isinstance(payload, Message):
        raise AppError("the template sends payloads: give it the payload with keys=, headers=, ... or an Envelope")
    if isinstance(payload, Envelope):
        tag = tag or payload.tag
        fields = ("keys", "headers", "content_type", "delay_level", "delay", "deliver_at", "wait_store")
        given = {name: getattr(payload, name) for name in fields} | given
        payload = payload.payload
    body, content_type = payloads.encode(payload, given.get("content_type"))
    properties = {CONTENT_TYPE: content_type}
    if headers := given.get("headers"):
        for name, value in headers.items():
            properties[name] = value if type(value) is str else _header(name, value)
    return Message(
        topic,
        body,
        tags=tag,
        keys=given.get("keys"),
        properties=properties,
        delay_level=given.get("delay_level", 0),
        deliver_at=_deliver_at(given.get("delay"), given.get("deliver_at")),
        wait_store=given.get("wait_store", True),
    )


def _header(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise AppError(f"header {name!r} is {type(value).__name__}: headers are str, int, float or bool")


def _deliver_at(delay: float | None, at: datetime | int | None) -> int | None:
    if delay is not None and at is not None:
        raise AppError("delay and deliver_at contradict each other: give one of them")
    if delay is not None:
        return int((time.time() + delay) * 1000)
    return int(at.timestamp() * 1000) if isinstance(at, datetime) else at
