"""Messages as requests: id, compression, properties, batches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ariane.client.connect.ids import UniqueIds
from ariane.client.connect.namespaces import wrap
from ariane.client.producer.checks import MAX_PROPERTIES
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.request_reply import REPLY
from ariane.env import Clock
from ariane.errors import InvalidMessage
from ariane.message import (
    INSTANCE_ID,
    MAX_RECONSUME_TIMES,
    MESSAGE_TYPE,
    RECONSUME_TIME,
    RETRY_PREFIX,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    Message,
    MessageQueue,
)
from ariane.protocol.batch import encode_item
from ariane.protocol.codes import RequestCode
from ariane.protocol.compression import FLAGS, compressor
from ariane.protocol.properties import NAME_VALUE, PROPERTY, encode_properties
from ariane.protocol.units import TRANSACTION_PREPARED as PREPARED_FLAG

_NONE: Final[dict[str, str]] = {}
ITEM_OVERHEAD: Final = 138  # bytes that a message of a batch takes in the store beside its encoded form and its topic


class Outgoing:
    """One request to send: a message, or several as a batch."""

    __slots__ = ("body", "code", "extra", "message", "message_id", "message_ids", "properties", "sys_flag")

    def __init__(
        self,
        message: Message,
        body: bytes,
        properties: dict[str, str],
        sys_flag: int,
        message_id: str,
        message_ids: tuple[str, ...] = (),
        code: RequestCode = RequestCode.SEND_MESSAGE_V2,
        extra: dict[str, str] = _NONE,
    ) -> None:
        self.message = message
        self.body = body
        self.properties = properties
        """The properties that are sent; hooks may add to them before."""
        self.sys_flag = sys_flag
        self.message_id = message_id
        self.message_ids = message_ids
        self.code = code
        self.extra = extra

    def fields(self, fixed: dict[str, str], queue: MessageQueue, now_ms: int) -> dict[str, str]:
        """The header fields, under the short names of SEND_MESSAGE_V2."""
        return {
            **fixed,
            "b": self.message.topic,
            "e": str(queue.queue_id),
            "f": str(self.sys_flag),
            "g": str(now_ms),
            "h": str(self.message.flag),
            "i": checked_properties(self.properties),
            "m": "true" if self.message_ids else "false",
            "n": queue.broker_name,
            **self.extra,
        }


def fixed_fields(group: str, options: ProducerOptions) -> dict[str, str]:
    """The header fields that all messages of a producer share."""
    queues = str(options.default_topic_queues)
    return {"a": group, "c": options.create_topic_key, "d": queues, "j": "0", "k": "false"}


class Packer:
    """Builds requests from messages."""

    def __init__(self, options: ProducerOptions, ids: UniqueIds, clock: Clock) -> None:
        self._options = options
        self._compress_over = options.compress_over
        self._flag = FLAGS[options.compression]
        self._compress: Callable[[bytes], bytes] = compressor(options.compression, options.compress_level)
        self._clock = clock
        self.ids = ids

    def compressed(self, body: bytes) -> tuple[bytes, int]:
        """A body as it is sent, compressed if it is long enough, and its sys flag."""
        if len(body) < self._compress_over:
            return body, 0
        return self._compress(body), self._flag

    def pack(self, message: Message, message_id: str = "") -> Outgoing:
        """Build the request of one message, with an id that it may have already. The message is not changed."""
        properties = dict(message.properties)
        if self._options.namespace:
            message = self._whole(message, properties)
        message_id = message_id or properties.get(UNIQUE_KEY) or self.ids.make(self._clock.now_ms())
        properties[UNIQUE_KEY] = message_id
        body, sys_flag = self.compressed(message.body)
        if properties.get(TRANSACTION_PREPARED) == "true":
            sys_flag |= PREPARED_FLAG
        code = RequestCode.SEND_MESSAGE_V2
        if properties.get(MESSAGE_TYPE) == REPLY:
            code = RequestCode.SEND_REPLY_MESSAGE_V2
        extra = _retry_fields(message.topic, properties)
        return Outgoing(message, body, properties, sys_flag, message_id, (), code, extra)

    def _whole(self, message: Message, properties: dict[str, str]) -> Message:
        """The message with the full name of its topic; a reply goes to a topic of the cluster, not of a tenant."""
        namespace = self._options.namespace
        if properties.get(MESSAGE_TYPE) == REPLY:
            return message
        properties[INSTANCE_ID] = namespace
        topic = wrap(namespace, message.topic)
        return Message.with_properties(topic, message.body, dict(message.properties), message.flag)

    def pack_batches(self, messages: Sequence[Message]) -> Iterator[Outgoing]:
        """Build as few requests as the size limit allows, in order."""
        batch = BatchBuilder()
        for message in messages:
            message_id, item = self.item(message)
            size = stored_size(message, item)
            if batch.ids and batch.size + size > self._options.max_message_size:
                yield self.pack_batch(messages[0], batch)
                batch = BatchBuilder()
            batch.add(message_id, item, size)
        yield self.pack_batch(messages[0], batch)

    def pack_batch(self, first: Message, batch: "BatchBuilder") -> Outgoing:
        """Build the request of a batch."""
        if self._options.namespace:
            first = Message(wrap(self._options.namespace, first.topic), b"")
        ids = tuple(batch.ids)
        return Outgoing(first, b"".join(batch.items), {}, 0, ",".join(ids), ids, RequestCode.SEND_BATCH_MESSAGE)

    def item(self, message: Message) -> tuple[str, bytes]:
        """The id of a message of a batch, and its encoded form."""
        properties, message_id = message.properties, ""
        if properties:
            message_id = properties.get(UNIQUE_KEY, "")
        if not message_id:
            message_id = self.ids.make(self._clock.now_ms())
        namespace = self._options.namespace
        if not properties and not namespace:
            text = f"{UNIQUE_KEY}{NAME_VALUE}{message_id}"
        else:
            every = {**properties, **({INSTANCE_ID: namespace} if namespace else {}), UNIQUE_KEY: message_id}
            text = checked_properties(every)
        return message_id, encode_item(message.flag, message.body, text.encode())


class BatchBuilder:
    """Encoded messages of one topic that will be sent as one request."""

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self.ids: list[str] = []
        self.size = 0
        """How many bytes the messages take in the store."""

    def add(self, message_id: str, item: bytes, size: int) -> None:
        """Add a message that takes `size` bytes in the store."""
        self.items.append(item)
        self.ids.append(message_id)
        self.size += size


def stored_size(message: Message, item: bytes) -> int:
    """How many bytes a message of a batch takes in the store."""
    return len(item) + len(message.topic) + ITEM_OVERHEAD


def checked_properties(properties: dict[str, str]) -> str:
    """The property string; InvalidMessage when it cannot be stored."""
    text = encode_properties(properties)
    if text.count(NAME_VALUE) != len(properties) or text.count(PROPERTY) != max(len(properties) - 1, 0):
        raise InvalidMessage("the characters U+0001 and U+0002 separate properties: remove them from names and values")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidMessage(f"keys, tags or properties cannot be encoded as UTF-8: {error}") from None
    if size > MAX_PROPERTIES:
        raise InvalidMessage(f"keys, tags and properties have over {MAX_PROPERTIES} bytes together")
    return text


def _retry_fields(topic: str, properties: dict[str, str]) -> dict[str, str]:
    """Header fields in place of two properties of a message to a retry topic: its retries, and their limit."""
    if not topic.startswith(RETRY_PREFIX):
        return {}
    tried, most = properties.pop(RECONSUME_TIME, None), properties.pop(MAX_RECONSUME_TIMES, None)
    return ({} if tried is None else {"j": tried}) | ({} if most is None else {"l": most})
