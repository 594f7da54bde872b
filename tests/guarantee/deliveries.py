"""Deliveries made by hand, for tests of what a consumer does with one."""

from itertools import count
from typing import Any

from ariane import MessageQueue, ReceivedMessage
from ariane.guarantee import ID_PROPERTY

_offsets = count()


def delivery(message_id: str | None, *, topic: str = "orders", reconsume_times: int = 0, body: bytes = b"") -> Any:
    """A message as a consumer gets it."""
    return ReceivedMessage(
        topic=topic,
        body=body,
        properties={} if message_id is None else {ID_PROPERTY: message_id},
        queue=MessageQueue(topic, "broker-a", 0),
        queue_offset=next(_offsets),
        physical_offset=0,
        message_id="7F000001",
        offset_id="7F000001",
        born_time=0,
        born_host="127.0.0.1:1",
        store_time=0,
        store_host="127.0.0.1:1",
        reconsume_times=reconsume_times,
        sys_flag=0,
        flag=0,
    )
