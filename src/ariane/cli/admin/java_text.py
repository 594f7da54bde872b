"""Values as Java and fastjson print them, which scripts around mqadmin read."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from ariane.message import MessageQueue, ReceivedMessage
from ariane.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from ariane.protocol.bodies.body import Body
from ariane.protocol.java import string_hash


def text(value: object) -> str:
    """`String.valueOf`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(k)}={text(value[k])}" for k in hash_order(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text, value)) + "]"
    return str(value)


def hash_order(keys: Iterable[Any]) -> list[Any]:
    """Keys in the order in which a HashMap iterates over them."""
    known = list(keys)
    size = 16
    while len(known) > size * 3 // 4:
        size *= 2

    def bucket(key: Any) -> int:
        number = string_hash(key) if isinstance(key, str) else int(key)
        number &= 0xFFFFFFFF
        return (number ^ number >> 16) & (size - 1)

    return sorted(known, key=bucket)


def day_time(millis: int) -> str:
    """`yyyy-MM-dd HH:mm:ss` in local time."""
    return datetime.fromtimestamp(millis / 1000).strftime("%Y-%m-%d %H:%M:%S")


def exact_time(millis: int) -> str:
    """`yyyy-MM-dd HH:mm:ss,SSS` in local time."""
    return f"{day_time(millis)},{millis % 1000:03d}"


def packed_time(millis: int) -> str:
    """`yyyyMMddHHmmssSSS` in local time."""
    return f"{datetime.fromtimestamp(millis / 1000):%Y%m%d%H%M%S}{millis % 1000:03d}"


def parse_time(given: str) -> int:
    """Milliseconds of a number, or of `yyyy-MM-dd#HH:mm:ss:SSS` in local time."""
    if given.lstrip("-").isdigit():
        return int(given)
    try:
        moment, _, millis = given.rpartition(":")
        return int(datetime.strptime(moment, "%Y-%m-%d#%H:%M:%S").timestamp() * 1000) + int(millis)
    except ValueError:
        raise ValueError(f"{given!r} is not a time: give milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS") from None


def permission(perm: int) -> str:
    """`RW-`."""
    return ("R" if perm & 4 else "-") + ("W" if perm & 2 else "-") + ("X" if perm & 1 else "-")


def bean(name: str, fields: Mapping[str, object]) -> str:
    """`Name [field=value, ...]`."""
    return f"{name} [" + ", ".join(f"{field}={text(value)}" for field, value in fields.items()) + "]"


def fields_of(body: Body) -> dict[str, Any]:
    """The members of a body under their Java names, in their order."""
    names = zip(body.__struct_fields__, body.__struct_encode_fields__, strict=True)
    return {java: getattr(body, name) for name, java in names}


def topic_config(config: TopicConfig) -> str:
    """`TopicConfig.toString`."""
    return bean("TopicConfig", fields_of(config) | {"perm": permission(config.perm)})


def group_config(config: SubscriptionGroupConfig) -> str:
    """`SubscriptionGroupConfig.toString`."""
    return bean("SubscriptionGroupConfig", fields_of(config))


def queue_text(queue: MessageQueue) -> str:
    """`MessageQueue.toString`."""
    return bean("MessageQueue", {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id})


def message_text(message: ReceivedMessage, body_crc: int, properties: Mapping[str, str]) -> str:
    """`MessageExt.toString`."""
    signed = [byte - 256 if byte > 127 else byte for byte in message.body]
    inner = (
        f"Message{{topic='{message.topic}', flag={message.flag}, properties={text(properties)}, "
        f"body={text(signed)}, transactionId='null'}}"
    )
    return bean(
        "MessageExt",
        {
            "brokerName": message.queue.broker_name,
            "queueId": message.queue.queue_id,
            "storeSize": message.store_size,
            "queueOffset": message.queue_offset,
            "sysFlag": message.sys_flag,
            "bornTimestamp": message.born_time,
            "bornHost": f"/{message.born_host}",
            "storeTimestamp": message.store_time,
            "storeHost": f"/{message.store_host}",
            "msgId": message.offset_id,
            "commitLogOffset": message.physical_offset,
            "bodyCRC": body_crc,
            "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_offset,
            "toString()": inner,
        },
    )


def pretty_json(value: Any, indent: str = "") -> str:
    """fastjson's pretty form: tabs, sorted members, and keys that are no text on one line and without quotes."""
    inner = indent + "\t"
    if isinstance(value, msgspec.Struct):
        value = {k: v for k, v in sorted(msgspec.to_builtins(value, str_keys=False).items()) if v is not None}
    if isinstance(value, dict):
        if not value:
            return "{}"
        if not isinstance(next(iter(value)), str):
            rows = ",".join(f"{key}:{pretty_json(item, inner)}" for key, item in value.items())
            return "{" + rows + "\n" + indent + "}"
        rows = ",".join(f'\n{inner}"{key}":{pretty_json(item, inner)}' for key, item in value.items())
        return "{" + rows + "\n" + indent + "}"
    if isinstance(value, list | tuple):
        if not value:
            return "[]"
        if all(isinstance(item, int | str) for item in value):  # such are Java's sets here, which stay on one line
            return msgspec.json.encode(value).decode()
        rows = ",".join(f"\n{inner}{pretty_json(item, inner)}" for item in value)
        return "[" + rows + "\n" + indent + "]"
    return msgspec.json.encode(value).decode()
