"""OFFSET_MOVED_EVENT: a note for operators that a consumer asked for messages that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.message import KEYS, OFFSET_MOVED_TOPIC, TAGS
from ariane.protocol import fastjson
from ariane.protocol.fast.pulling import Pulling
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import Unit

if TYPE_CHECKING:
    from ariane.broker.server import Broker


def offset_moved_event(broker: Broker, header: Pulling, new_offset: int) -> Unit:
    """The message that tells who asked for what and where it was sent."""
    queue = {"brokerName": broker.options.broker_name, "queueId": header.queue_id, "topic": header.kind.topic}
    event = {
        "consumerGroup": header.kind.consumer_group,
        "messageQueue": queue,
        "offsetNew": new_offset,
        "offsetRequest": header.queue_offset,
    }
    properties = encode_properties({KEYS: header.kind.consumer_group, TAGS: header.kind.consumer_group})
    return Unit(
        OFFSET_MOVED_TOPIC.encode(),
        fastjson.dumps(event),
        properties.encode(),
        born_time=broker.env.clock.now_ms(),
        born_host=broker.store_host,
    )
