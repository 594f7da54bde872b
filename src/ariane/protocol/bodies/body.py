"""The base of JSON bodies: read tolerantly, written strictly."""

from typing import Any, Self

import msgspec

from ariane.errors import ProtocolError
from ariane.message import MessageQueue
from ariane.protocol import fastjson
from ariane.protocol.fastjson import ObjectKey

_encode = msgspec.json.Encoder().encode
_DEEPEST = fastjson.DEEPEST
LOOSE_REQUEST = 1 << 18
"""Bytes of a request's body that may be in fastjson's dialect, whose parser takes a second for each megabyte."""


class Body(msgspec.Struct, rename="camel"):
    """A JSON body. Unknown members are ignored; null and missing ones take their default."""

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Decode a body; ProtocolError when it is malformed."""
        try:
            return msgspec.json.decode(body, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return cls.from_builtins(fastjson.loads(body))

    @classmethod
    def decode_request(cls, body: bytes) -> Self:
        """Like `decode`, for requests: fastjson's dialect is accepted up to `LOOSE_REQUEST` bytes."""
        if len(body) <= LOOSE_REQUEST:
            return cls.decode(body)
        try:
            return msgspec.json.decode(body, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"bad body of {len(body)} bytes for {cls.__name__}: {error}") from None

    @classmethod
    def from_builtins(cls, value: Any) -> Self:
        """Make a body of the values that `fastjson.loads` returns."""
        try:
            return msgspec.convert(_without_nulls(value, 0), cls, strict=False)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ProtocolError(f"bad body for {cls.__name__}: {error}") from None

    def encode(self) -> bytes:
        """Encode the body as strict JSON."""
        return _encode(self)


def _without_nulls(value: Any, depth: int) -> Any:
    """Drop null members: like Java's parsers, keep the default there."""
    if depth > _DEEPEST:
        raise ProtocolError(f"JSON is nested deeper than {_DEEPEST} levels")
    if isinstance(value, dict):
        return {key: _without_nulls(item, depth + 1) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item, depth + 1) for item in value]
    return value


class QueueKey(Body, order=True):
    """A message queue as RocketMQ's JSON writes it."""

    topic: str
    broker_name: str
    queue_id: int

    @classmethod
    def of(cls, queue: MessageQueue) -> "QueueKey":
        return cls(queue.topic, queue.broker_name, queue.queue_id)

    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


def queue_as_key(queue: MessageQueue) -> ObjectKey:
    """A message queue as the key of a map."""
    return ObjectKey((("brokerName", queue.broker_name), ("queueId", queue.queue_id), ("topic", queue.topic)))


def queue_from_key(key: Any) -> MessageQueue:
    """The message queue of a key: an object, or (from peers that write strict JSON) the text of one."""
    members = key.as_dict() if isinstance(key, ObjectKey) else fastjson.loads(str(key).encode())
    try:
        return MessageQueue(str(members["topic"]), str(members["brokerName"]), int(members["queueId"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"not a message queue: {key!r} ({error})") from None
