"""Message units as messages.

Every message is delivered: parts that cannot be decoded stay as stored, and `decode_error` says why. Only bytes that
are not a unit are an error, because the start of the next unit is then unknown.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from types import FunctionType
from typing import Final

from ariane.errors import ProtocolError
from ariane.message import UNIQUE_KEY, MessageQueue, ReceivedMessage
from ariane.protocol.compression import decompress
from ariane.protocol.ids import host_text, offset_id
from ariane.protocol.native import i64, read_i32_be
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import (
    BORN_HOST_AT,
    BORN_HOST_V6,
    COMPRESSED,
    MAGIC,
    MIN_UNIT,
    PHYSICAL_OFFSET_AT,
    PREPARED_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    STORE_HOST_AT,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    V4_BODY_AT,
    Unit,
    decode_unit,
)

_CAREFUL = BORN_HOST_V6 | STORE_HOST_V6 | COMPRESSED

NOT_UTF8: Final = "the properties are not UTF-8"

_host_text = lru_cache(maxsize=4096)(host_text)


@lru_cache(maxsize=4096)
def _topic(name: bytes) -> str:
    return name.decode(errors="replace")


@lru_cache(maxsize=16384)
def _queue(topic: str, broker_name: str, queue_id: int) -> MessageQueue:
    return MessageQueue(topic, broker_name, queue_id)


def decode_body(body: bytes, sys_flag: int) -> tuple[bytes, str | None]:
    """Decompress a body; returns it as stored, and the reason, when that fails."""
    if not sys_flag & COMPRESSED:
        return body, None
    try:
        return decompress(body, sys_flag), None
    except ProtocolError as error:
        return body, str(error)


def is_body_as_stored(message: ReceivedMessage) -> bool:
    """Whether the body could not be decompressed and is still compressed as the sys flag says."""
    return message.decode_error not in (None, NOT_UTF8)


def _repaired(properties: bytes) -> tuple[str, str]:
    """Properties that are not UTF-8, as Apache's client decodes them, and the reason for `decode_error`."""
    return properties.decode(errors="replace"), NOT_UTF8


def decode_message(unit: Unit, broker_name: str) -> ReceivedMessage:
    """A unit as a message, decompressed, with its properties split."""
    body, problem = decode_body(unit.body, unit.sys_flag)
    try:
        text = unit.properties.decode()
    except UnicodeDecodeError:
        text, why = _repaired(unit.properties)
        problem = f"{problem}; {why}" if problem else why
    properties = decode_properties(text)
    where = offset_id(unit.store_host, unit.physical_offset)
    topic = _topic(unit.topic)
    return ReceivedMessage(
        topic=topic,
        body=body,
        properties=properties,
        queue=_queue(topic, broker_name, unit.queue_id),
        queue_offset=unit.queue_offset,
        physical_offset=unit.physical_offset,
        message_id=properties.get(UNIQUE_KEY) or where,
        offset_id=where,
        born_time=unit.born_time,
        born_host=_host_text(unit.born_host),
        store_time=unit.store_time,
        store_host=_host_text(unit.store_host),
        reconsume_times=unit.reconsume_times,
        sys_flag=unit.sys_flag,
        flag=unit.flag,
        prepared_offset=unit.prepared_offset,
        store_size=unit.size,
        decode_error=problem,
    )


class PulledUnits:
    """Decodes fields of the messages of one response, which share their broker and some properties.

    A message keeps its bytes beside the body: `head` before it, and `tail` from the byte with the topic's length on.
    """

    def __init__(self, broker_name: str, properties: dict[str, str]) -> None:
        self._broker_name = broker_name
        self._more = properties

    def read(self, message: ReceivedMessage, name: str) -> object:
        """The value of a field of ReceivedMessage; AttributeError for any other name."""
        head, tail = message.head, message.tail
        number = _NUMBERS.get(name)
        if number is not None:
            value: object = number.unpack_from(head)[0]
            return value
        if name == "properties":
            return _properties_in(tail) | self._more
        if name == "message_id":
            return _properties_in(tail).get(UNIQUE_KEY) or _offset_id_in(head)
        if name == "topic":
            return _topic(tail[1 : 1 + tail[0]])
        if name == "queue":
            return _queue(_topic(tail[1 : 1 + tail[0]]), self._broker_name, _QUEUE_ID.unpack_from(head)[0])
        if name == "offset_id":
            return _offset_id_in(head)
        if name == "born_host":
            return _host_text(head[BORN_HOST_AT : BORN_HOST_AT + 8])
        if name == "store_host":
            return _host_text(head[STORE_HOST_AT : STORE_HOST_AT + 8])
        raise AttributeError(f"a ReceivedMessage has no attribute {name!r}")


def _properties_in(tail: bytes) -> dict[str, str]:
    return decode_properties(tail[3 + tail[0] :].decode())


def _offset_id_in(head: bytes) -> str:
    where = head[STORE_HOST_AT : STORE_HOST_AT + 8] + head[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8]
    return where.hex().upper()


_QUEUE_ID: Final = Struct(f">{QUEUE_ID_AT}xi")
_NUMBERS: Final = {
    "flag": Struct(">16xi"),
    "physical_offset": Struct(f">{PHYSICAL_OFFSET_AT}xq"),
    "sys_flag": Struct(f">{SYS_FLAG_AT}xi"),
    "born_time": Struct(">40xq"),
    "store_time": Struct(">56xq"),
    "reconsume_times": Struct(">72xi"),
    "prepared_offset": Struct(f">{PREPARED_OFFSET_AT}xq"),
}
_NONE: Final[dict[str, str]] = {}


def decode_messages(body: bytes, broker_name: str, more: dict[str, str] = _NONE) -> list[ReceivedMessage]:
    """The messages of a pull's body, each with some properties more.

    A message without peculiarities is decoded later, field by field as it is asked for.
    """
    messages: list[ReceivedMessage] = []
    reader = PulledUnits(broker_name, more)
    at: i64 = 0
    end: i64 = len(body)
    while at < end:
        message = _decode_later(body, at, end, reader)
        if message is None:
            message = decode_message(decode_unit(body, at), broker_name)
            message.properties.update(more)
        messages.append(message)
        at += message.store_size
    return messages


def _decode_later(body: bytes, at: i64, end: i64, reader: PulledUnits) -> ReceivedMessage | None:
    """Check the layout of an uncompressed unit with two IPv4 hosts and ASCII properties; None for any other."""
    if at + MIN_UNIT > end:
        return None
    size, magic, sys_flag, body_length, queue_offset = _numbers_at(body, at)
    body_at = at + V4_BODY_AT
    topic_at = body_at + body_length + 1
    unit_end = at + size
    if magic != MAGIC or sys_flag & _CAREFUL or body_length < 0 or topic_at + 2 > unit_end or unit_end > end:
        return None
    topic_end = topic_at + body[topic_at - 1]
    if topic_end + 2 > unit_end or topic_end + 2 + (body[topic_end] << 8 | body[topic_end + 1]) != unit_end:
        return None
    tail = body[topic_at - 1 : unit_end]
    if not tail.isascii() and not body[topic_end + 2 : unit_end].isascii():  # a length may be above 127
        return None
    message = _new(ReceivedMessage)
    message.body = body[body_at : topic_at - 1]
    message.queue_offset = queue_offset
    message.store_size = size
    message.decode_error = None
    message.reader = reader
    message.head = body[at:body_at]
    message.tail = tail
    return message


_new: Final[Callable[[type[ReceivedMessage]], ReceivedMessage]] = object.__new__
_CHECKED: Final = Struct(">iI12xq8xi44xi")  # size, magic, queue offset, sys flag, body length


def _numbers_at(body: bytes, at: i64) -> tuple[i64, i64, i64, i64, i64]:
    if PLAIN:
        size, magic, queue_offset, sys_flag, body_length = _CHECKED.unpack_from(body, at)
        return size, magic, sys_flag, body_length, queue_offset
    return (
        i64(read_i32_be(body, at)),
        i64(read_i32_be(body, at + 4)) & 0xFFFFFFFF,
        i64(read_i32_be(body, at + SYS_FLAG_AT)),
        i64(read_i32_be(body, at + V4_BODY_AT - 4)),
        i64(read_i32_be(body, at + QUEUE_OFFSET_AT)) << 32
        | i64(read_i32_be(body, at + QUEUE_OFFSET_AT + 4)) & 0xFFFFFFFF,
    )


PLAIN: Final = isinstance(_numbers_at, FunctionType)
"""Whether this module is not compiled."""
