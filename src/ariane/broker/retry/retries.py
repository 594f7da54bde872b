"""Rules for messages that a consumer sends back: retry after a delay, or dead letter after too many failures."""

from dataclasses import dataclass
from typing import Final

from ariane.broker.unit_copy import copy_of, properties_of, topic_of
from ariane.message import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    WAIT,
    dead_letter_topic,
    is_valid_name,
    retry_topic,
)
from ariane.protocol.codes import V3_4_9
from ariane.protocol.ids import offset_id
from ariane.protocol.units import Unit

FIRST_RETRY_LEVEL: Final = 3  # a first failure waits at level 3, each further one a level longer
DEAD_LETTER_QUEUES: Final = 1
_MOST_TIMES: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class SentBack:
    """Target of a message that was sent back: topic and delay level (0 for none)."""

    topic: str
    delay_level: int
    dead: bool


def decide(group: str, reconsume_times: int, delay_level: int, max_times: int) -> SentBack:
    """The target of a message that failed `reconsume_times` times before, and now once more.

    >>> decide("g", reconsume_times=0, delay_level=0, max_times=16)
    SentBack(topic='%RETRY%g', delay_level=3, dead=False)
    """
    if reconsume_times >= max_times or delay_level < 0:
        return SentBack(dead_letter_topic(group), 0, True)
    return SentBack(retry_topic(group), delay_level or FIRST_RETRY_LEVEL + max(reconsume_times, 0), False)


def allowed_times(group_limit: int, client_version: int, header_limit: int | None) -> int:
    """The most deliveries of a message: the client's limit if its version sends one, else the group's."""
    if header_limit is not None and client_version >= V3_4_9:
        return header_limit
    return group_limit


def sent_back(unit: Unit, where: SentBack, queue_id: int) -> Unit:
    """The unit to store for a message that was sent back; its DELAY property redirects it to the schedule topic."""
    properties = properties_of(unit)
    properties.setdefault(RETRY_TOPIC, topic_of(unit))
    properties[WAIT] = "false"
    properties[DELAY] = str(where.delay_level)
    if not properties.get(ORIGIN_MESSAGE_ID, "").strip():
        properties[ORIGIN_MESSAGE_ID] = offset_id(unit.store_host, unit.physical_offset)
    times = min(max(unit.reconsume_times, 0) + 1, _MOST_TIMES)  # the first number is its producer's
    return copy_of(unit, where.topic, queue_id, properties, reconsume_times=times)


def original_topic(unit: Unit) -> str | None:
    """The original topic of a dead letter, if its properties name one."""
    topic = properties_of(unit).get(RETRY_TOPIC)
    return topic if topic is not None and is_valid_name(topic) else None


def resurrected(unit: Unit, topic: str, queue_id: int) -> Unit:
    """A dead letter as a new message of its original topic: same body, keys, tags and unique key, no failures.

    It is delivered to every group of the topic. ORIGIN_MESSAGE_ID still names the first message.
    """
    properties = properties_of(unit)
    for name in (RETRY_TOPIC, DELAY, REAL_TOPIC, REAL_QUEUE_ID, WAIT):
        properties.pop(name, None)
    return copy_of(unit, topic, queue_id, properties, reconsume_times=0)
