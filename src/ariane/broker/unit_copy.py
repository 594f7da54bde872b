"""A stored message as the start of another: the broker's own kinds of messages are rewritten copies."""

from typing import Any

from ariane.protocol.properties import decode_properties, encode_properties
from ariane.protocol.units import Unit


def properties_of(unit: Unit) -> dict[str, str]:
    """The properties of a unit; bytes that are no text survive the way there and back."""
    return decode_properties(unit.properties.decode(errors="surrogateescape"))


def packed(properties: dict[str, str]) -> bytes:
    """The bytes of properties in a unit."""
    return encode_properties(properties).encode(errors="surrogateescape")


def topic_of(unit: Unit) -> str:
    """The topic of a unit as text."""
    return unit.topic.decode(errors="surrogateescape")


def copy_of(unit: Unit, topic: str, queue_id: int, properties: dict[str, str], **changes: Any) -> Unit:
    """The same message for another queue: body, flags, birth and store host stay, places and prepared offset do not."""
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
