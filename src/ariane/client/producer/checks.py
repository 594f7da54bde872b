"""Checks of messages, groups and arguments, before anything is sent."""

import inspect
from collections.abc import Callable, Sequence

from ariane.client.producer.options import ProducerOptions
from ariane.errors import ClientError, InvalidMessage
from ariane.message import (
    CHECK_MAX_TIME_TOPIC,
    DELAY,
    DELIVER_TIME,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    MAX_NAME,
    OFFSET_MOVED_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    WAIT,
    Message,
    MessageQueue,
    is_valid_name,
)

MAX_GROUP = 255
MAX_PROPERTIES = 32767  # bytes: their length is a signed 16-bit number in the store
_NOT_TO_SEND = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, HALF_OP_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
)
_RESERVED_GROUPS = frozenset({"DEFAULT_CONSUMER", "DEFAULT_PRODUCER"})
_checked: set[str] = set()  # topics that passed; looking one up is cheaper than checking it again


def check_topic(topic: str) -> None:
    """RocketMQ's rules for the topic of a message to send."""
    if topic in _checked:
        return
    if not topic.strip():
        raise InvalidMessage("the topic is blank")
    if len(topic) > MAX_NAME:
        raise InvalidMessage(f"topic {topic!r} has {len(topic)} characters, {MAX_NAME} are allowed")
    if not is_valid_name(topic):
        raise InvalidMessage(f"topic {topic!r} may contain only letters, digits and the characters % | _ -")
    if topic in _NOT_TO_SEND:
        raise InvalidMessage(f"topic {topic} is reserved for brokers: send to a topic of your own")
    if len(_checked) < 10_000:
        _checked.add(topic)


def check_message(message: Message, options: ProducerOptions) -> None:
    """Topic, body, size and delay."""
    check_topic(message.topic)
    if not isinstance(message.body, bytes):
        kind = type(message.body).__name__
        raise InvalidMessage(f"the body of the message to {message.topic} is {kind}, not bytes: encode it first")
    size = len(message.body)
    if not size:
        raise InvalidMessage(
            f"the message to {message.topic} has an empty body, which brokers refuse: give it at least a byte"
        )
    if size > options.max_message_size:
        raise InvalidMessage(
            f"the body has {size} bytes, max_message_size is {options.max_message_size}: "
            "send less, or raise it here and at the broker"
        )
    level = message.properties.get(DELAY)
    if level is not None and not (level.isdecimal() and 1 <= int(level) <= options.delay_levels):
        raise InvalidMessage(
            f"delay_level {level} is not between 1 and {options.delay_levels}: brokers would deliver at another time; "
            "set delay_levels=... if theirs have more levels"
        )
    time = message.properties.get(DELIVER_TIME)
    if time is not None and not time.isdecimal():
        raise InvalidMessage(f"deliver_at {time} is no time: give milliseconds since 1970")


def check_target(queue: MessageQueue | None, selector: object, hash_key: object) -> None:
    """At most one of the ways to choose a queue is given."""
    if (queue is not None) + (selector is not None) + (hash_key is not None) > 1:
        raise InvalidMessage("queue, selector and hash_key each choose the queue: give only one of them")


def accepts(function: Callable[..., object], count: int) -> bool:
    """Whether a function can be called with so many positional arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in without a signature
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def check_batch(messages: Sequence[Message], options: ProducerOptions) -> None:
    """The messages of a batch have one topic, and none of them is delayed or a retry."""
    if not messages:
        raise InvalidMessage("the batch is empty: give at least one message")
    first = messages[0]
    for message in messages:
        check_message(message, options)
        if message.topic != first.topic:
            raise InvalidMessage(f"a batch has one topic, not {first.topic} and {message.topic}: send a batch for each")
        if message.properties.get(WAIT) != first.properties.get(WAIT):
            raise InvalidMessage("the messages of a batch must have the same wait_store")
        if DELAY in message.properties or DELIVER_TIME in message.properties:
            raise InvalidMessage("a delayed message cannot be in a batch: send it alone")
    if first.topic.startswith(RETRY_PREFIX):
        raise InvalidMessage("messages of a retry topic cannot be in a batch: send them one by one")


def check_group(group: str) -> None:
    """RocketMQ's rules for the name of a group."""
    if not group.strip() or group in _RESERVED_GROUPS:
        raise ClientError(f"{group!r} cannot be the name of a group: choose one of your own")
    if len(group) > MAX_GROUP or not all(is_valid_name(part) for part in (group[:MAX_NAME], group[-MAX_NAME:])):
        raise ClientError(f"group {group!r} may contain up to {MAX_GROUP} letters, digits and the characters % | _ -")
