"""Message units as messages."""

from functools import lru_cache

from ariane.client.compression import decompress
from ariane.message import UNIQUE_KEY, MessageQueue, ReceivedMessage
from ariane.protocol.ids import host_text, offset_id
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import COMPRESSED, Unit, decode_units

_host_text = lru_cache(maxsize=4096)(host_text)


@lru_cache(maxsize=4096)
def _topic(name: bytes) -> str:
    return name.decode()


@lru_cache(maxsize=16384)
def _queue(topic: str, broker_name: str, queue_id: int) -> MessageQueue:
    return MessageQueue(topic, broker_name, queue_id)


def decode_message(unit: Unit, broker_name: str) -> ReceivedMessage:
    """A unit as its reader sees it: unpacked, with its properties split."""
    properties = decode_properties(unit.properties.decode())
    where = offset_id(unit.store_host, unit.physical_offset)
    topic = _topic(unit.topic)
    return ReceivedMessage(
        topic=topic,
        body=decompress(unit.body, unit.sys_flag) if unit.sys_flag & COMPRESSED else unit.body,
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
    )


def decode_messages(body: bytes, broker_name: str) -> list[ReceivedMessage]:
    """The messages of a pull's body."""
    return [decode_message(unit, broker_name) for unit in decode_units(body)]
