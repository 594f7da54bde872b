"""The properties that set a delivery time, and the stored forms of a message until it is delivered.

RocketMQ 5 has TIMER_DELIVER_MS (a time), TIMER_DELAY_MS and TIMER_DELAY_SEC (from now); its cloud edition has
__STARTDELIVERTIME. A message that waits is stored in rmq_sys_wheel_timer with its real topic and queue, and with
TIMER_OUT_MS, the time at which it is due.
"""

from typing import Final

from ariane import message
from ariane.broker.unit_copy import copy_of, packed, properties_of, topic_of
from ariane.errors import ResponseError
from ariane.message import (
    DELIVER_TIME,
    HALF_TOPIC,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_CANCEL,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TIMER_TOPIC,
    UNIQUE_KEY,
)
from ariane.protocol.codes import ResponseCode
from ariane.protocol.units import Unit

MESSAGES: Final = 0
"""The queue of the pending messages."""
STATES: Final = 1
"""The queue of the delivery notes."""

_NAMES: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, DELIVER_TIME)  # the first one counts, as in 5.x
_LONGEST: Final = 16  # digits of a time


def due_time(properties: dict[str, str], now_ms: int) -> int | None:
    """When a message is due; None when it asks for no time. ResponseError when the time is not a number."""
    name = next((name for name in _NAMES if name in properties), None)
    if name is None:
        return None
    value = properties[name]
    if not (value.isascii() and value.isdigit()) or len(value) > _LONGEST:
        raise ResponseError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the property {name} must be a number of milliseconds or seconds, got {value!r}",
        )
    if name == TIMER_DELAY_SEC:
        return now_ms + int(value) * 1000
    return now_ms + int(value) if name == TIMER_DELAY_MS else int(value)


def check_time(properties: dict[str, str], now_ms: int, longest_ms: int) -> int:
    """The future delivery time of a message; 0 when it has none or it has passed. ResponseError when it is illegal."""
    due = due_time(properties, now_ms)
    if due is None:
        return 0
    if due - now_ms > longest_ms:
        text = f"timer message illegal, the delay time should not be bigger than the max delay {longest_ms}ms"
        raise ResponseError(ResponseCode.MESSAGE_ILLEGAL, f"{text}; raise timerMaxDelaySec, or send later")
    if due > now_ms:
        return due
    if TIMER_CANCEL in properties:
        text = "the message to cancel was due already, or TIMER_DELIVER_MS is not its time"
        raise ResponseError(ResponseCode.MESSAGE_ILLEGAL, text)
    return 0


def make_timed(unit: Unit, properties: dict[str, str], due_ms: int) -> None:
    """Redirect a unit to the queue of pending messages."""
    properties[TIMER_OUT_MS] = str(due_ms)
    properties[REAL_TOPIC] = topic_of(unit)
    properties[REAL_QUEUE_ID] = str(unit.queue_id)
    unit.properties = packed(properties)
    unit.topic = TIMER_TOPIC.encode()
    unit.queue_id = MESSAGES


def due_message(unit: Unit) -> Unit | None:
    """The message to deliver for a pending one; None when its properties do not name its real topic and queue."""
    properties = properties_of(unit)
    topic = properties.pop(REAL_TOPIC, "")
    queue = properties.pop(REAL_QUEUE_ID, "")
    properties.pop(TIMER_OUT_MS, None)
    if not message.is_valid_name(topic) or not (queue.isascii() and queue.isdigit()) or topic == HALF_TOPIC:
        return None
    return copy_of(unit, topic, int(queue), properties)


def rolled_message(unit: Unit) -> Unit:
    """A copy of a pending message, to be stored at the end of the log."""
    return copy_of(unit, TIMER_TOPIC, MESSAGES, properties_of(unit))


def unique_key(unit: Unit) -> str:
    """The topic and the unique key, by which a cancellation finds its target."""
    properties = properties_of(unit)
    return f"{properties.get(REAL_TOPIC, '')}@{properties.get(UNIQUE_KEY, '')}"


def cancelled_key(unit: Unit) -> str:
    """The same of the message that a cancellation names: a producer cancels messages of the topic it writes to.

    Newer producers of RocketMQ 5 put the topic before the unique key.
    """
    properties = properties_of(unit)
    topic = properties.get(REAL_TOPIC, "")
    return f"{topic}@{properties.get(TIMER_CANCEL, '').removeprefix(topic + '_')}"
