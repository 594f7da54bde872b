"""Message units as messages.

Every message is delivered: parts that cannot be decoded stay as stored, and `decode_error` says why. Only bytes that
are not a unit are an error, because the start of the next unit is then unknown.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

from ariane.errors import ProtocolError
from ariane.message import UNIQUE_KEY, MessageQueue, ReceivedMessage
from ariane.protocol.compression import decompress
from ariane.protocol.ids import host_text, offset_id
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import (
    BORN_HOST_V6,
    COMPRESSED,
    MAGIC,
    MIN_UNIT,
    STORE_HOST_V6,
    UNIT_V4,
    Unit,
    decode_unit,
)

_OFFSET = Struct(">q")
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


def decode_messages(body: bytes, broker_name: str) -> list[ReceivedMessage]:
    """The messages of a pull's body."""
    messages: list[ReceivedMessage] = []
    at, end = 0, len(body)
    while at < end:
        message = _decode_quickly(body, at, broker_name)
        if message is None:
            message = decode_message(decode_unit(body, at), broker_name)
        messages.append(message)
        at += message.store_size
    return messages


def _decode_quickly(body: bytes, at: int, broker_name: str) -> ReceivedMessage | None:
    """Decode an uncompressed unit with two IPv4 hosts in one step; None for any other, which needs `decode_message`."""
    if at + MIN_UNIT > len(body):
        return None
    (
        size, magic, _, queue_id, flag, queue_offset, physical_offset, sys_flag, born_time, born_host, store_time,
        store_host, reconsume_times, prepared_offset, body_length,
    ) = UNIT_V4.unpack_from(body, at)  # fmt: skip
    body_at = at + UNIT_V4.size
    topic_at = body_at + body_length + 1
    if magic != MAGIC or sys_flag & _CAREFUL or body_length < 0 or topic_at > at + size or at + size > len(body):
        return None
    topic_end = topic_at + body[topic_at - 1]
    properties_at = topic_end + 2
    if properties_at + int.from_bytes(body[topic_end:properties_at], "big") != at + size:
        return None
    try:
        properties = decode_properties(body[properties_at : at + size].decode())
    except UnicodeDecodeError:
        return None
    topic = _topic(body[topic_at:topic_end])
    where = (store_host + _OFFSET.pack(physical_offset)).hex().upper()
    return ReceivedMessage(
        topic=topic,
        body=body[body_at : topic_at - 1],
        properties=properties,
        queue=_queue(topic, broker_name, queue_id),
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        message_id=properties.get(UNIQUE_KEY) or where,
        offset_id=where,
        born_time=born_time,
        born_host=_host_text(born_host),
        store_time=store_time,
        store_host=_host_text(store_host),
        reconsume_times=reconsume_times,
        sys_flag=sys_flag,
        flag=flag,
        prepared_offset=prepared_offset,
        store_size=size,
    )
