"""Copies of stored messages for another queue: retries, dead letters, half and delayed messages are such copies."""

from typing import Any

from ariane.protocol.properties import decode_properties, encode_properties
from ariane.protocol.units import Unit


def properties_of(unit: Unit) -> dict[str, str]:
    """Decode the properties of a unit; bytes that are not UTF-8 survive decoding and encoding."""
    return decode_properties(unit.properties.decode(errors="surrogateescape"))


def packed(properties: dict[str, str]) -> bytes:
    """Encode properties as a unit holds them."""
    return encode_properties(properties).encode(errors="surrogateescape")


def topic_of(unit: Unit) -> str:
    """The topic of a unit as text."""
    return unit.topic.decode(errors="surrogateescape")


def copy_of(unit: Unit, topic: str, queue_id: int, properties: dict[str, str], **changes: Any) -> Unit:
    """Copy a message for another queue: body, flags, birth and store host stay, offsets do not."""
    fields: dict[str, Any] = {
        "flag": unit.flag,
        "sys_flag": unit.sys_flag,
        "born_time": unit.born_time,
        "born_host": unit.born_host,
        "store_host": unit.store_host,
        "reconsume_times": unit.reconsume_times,
        "crc": unit.body_crc,
    }
    name = topic.encode(errors="surrogateescape")
    return Unit(name, unit.body, packed(properties), queue_id=queue_id, **{**fields, **changes})
