"""Messages as requests: id, compression, properties, batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ariane.client.connect.ids import UniqueIds
from ariane.client.connect.namespaces import wrap
from ariane.client.producer.checks import MAX_PROPERTIES
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.request_reply import REPLY
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
from ariane.protocol.batch import BatchItem, encode_batch
from ariane.protocol.codes import RequestCode
from ariane.protocol.compression import FLAGS, compressor
from ariane.protocol.properties import NAME_VALUE, PROPERTY, encode_properties
from ariane.protocol.units import TRANSACTION_PREPARED as PREPARED_FLAG

ITEM_OVERHEAD = 160  # bytes that a message of a batch takes in the store beside body, properties and topic


@dataclass(slots=True)
class Outgoing:
    """One request to send: a message, or several as a batch."""

    message: Message
    body: bytes
    properties: dict[str, str]
    """The properties that are sent; hooks may add to them before."""
    sys_flag: int
    message_id: str
    message_ids: tuple[str, ...] = ()
    code: RequestCode = RequestCode.SEND_MESSAGE_V2
    extra: dict[str, str] = field(default_factory=dict)
    made_id: bool = False
    """Whether the id was generated here, not given by the caller."""

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

    def __init__(self, options: ProducerOptions, ids: UniqueIds) -> None:
        self._options = options
        self._ids = ids
        self._flag = FLAGS[options.compression]
        self._compress: Callable[[bytes], bytes] = compressor(options.compression, options.compress_level)

    def pack(self, message: Message) -> Outgoing:
        """Build the request of one message. The message is not changed."""
        properties = dict(message.properties)
        if self._options.namespace:
            message = self._whole(message, properties)
        given_id = properties.get(UNIQUE_KEY)
        message_id = properties[UNIQUE_KEY] = given_id or self._ids.make()
        body, sys_flag = message.body, 0
        if len(body) >= self._options.compress_over:
            body, sys_flag = self._compress(body), self._flag
        if properties.get(TRANSACTION_PREPARED) == "true":
            sys_flag |= PREPARED_FLAG
        code = RequestCode.SEND_MESSAGE_V2
        if properties.get(MESSAGE_TYPE) == REPLY:
            code = RequestCode.SEND_REPLY_MESSAGE_V2
        extra = _retry_fields(message.topic, properties)
        return Outgoing(message, body, properties, sys_flag, message_id, (), code, extra, not given_id)

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
        namespace = self._options.namespace
        first = Message(wrap(namespace, messages[0].topic), b"") if namespace else messages[0]
        items: list[BatchItem] = []
        ids: list[str] = []
        size = 0
        for message in messages:
            properties = dict(message.properties)
            if namespace:
                properties[INSTANCE_ID] = namespace
            message_id = properties.setdefault(UNIQUE_KEY, "") or self._ids.make()
            properties[UNIQUE_KEY] = message_id
            item = BatchItem(message.flag, message.body, checked_properties(properties).encode())
            item_size = len(item.body) + len(item.properties) + len(message.topic) + ITEM_OVERHEAD
            if items and size + item_size > self._options.max_message_size:
                yield _batch(first, items, ids)
                items, ids, size = [], [], 0
            items.append(item)
            ids.append(message_id)
            size += item_size
        yield _batch(first, items, ids)


def _batch(first: Message, items: list[BatchItem], ids: list[str]) -> Outgoing:
    code = RequestCode.SEND_BATCH_MESSAGE
    return Outgoing(first, encode_batch(items), {}, 0, ",".join(ids), tuple(ids), code)


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
