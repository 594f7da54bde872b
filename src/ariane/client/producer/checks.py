"""What is refused before anything is sent."""

from collections.abc import Sequence

from ariane.errors import ClientError, InvalidMessage
from ariane.message import (
    CHECK_MAX_TIME_TOPIC,
    DELAY,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    MAX_NAME,
    OFFSET_MOVED_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    WAIT,
    Message,
    is_valid_name,
)

MAX_GROUP = 255
MAX_PROPERTIES = 32767  # bytes: their length is a signed 16-bit number in the store
_NOT_TO_SEND = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, HALF_OP_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
)
_RESERVED_GROUPS = frozenset({"DEFAULT_CONSUMER", "DEFAULT_PRODUCER"})
_checked: set[str] = set()  # topics that passed; checking a name again costs more than looking it up


def check_topic(topic: str) -> None:
    """RocketMQ's rules for the topic of a message to send."""
    if topic in _checked:
        return
    if not topic.strip():
        raise InvalidMessage("the topic is blank")
    if len(topic) > MAX_NAME:
        raise InvalidMessage(f"topic {topic!r} has {len(topic)} characters, {MAX_NAME} are allowed")
    if not is_valid_name(topic):
        raise InvalidMessage(f"topic {topic!r} may have only letters, digits and the characters % | _ -")
    if topic in _NOT_TO_SEND:
        raise InvalidMessage(f"topic {topic} belongs to brokers: clients may not send to it")
    if len(_checked) < 10_000:
        _checked.add(topic)


def check_message(message: Message, largest: int) -> None:
    """Topic, body and size."""
    check_topic(message.topic)
    if not isinstance(message.body, bytes):
        kind = type(message.body).__name__
        raise InvalidMessage(f"the body of the message to {message.topic} is {kind}, not bytes: encode it first")
    size = len(message.body)
    if not size:
        raise InvalidMessage(f"the message to {message.topic} has an empty body, which no broker takes: give it a byte")
    if size > largest:
        raise InvalidMessage(
            f"the body has {size} bytes, max_message_size is {largest}: send less, or raise it here and at the broker"
        )


def check_batch(messages: Sequence[Message], largest: int) -> None:
    """Messages can go together when they have one topic and none of them is delayed or a retry."""
    if not messages:
        raise InvalidMessage("the batch is empty")
    first = messages[0]
    for message in messages:
        check_message(message, largest)
        if message.topic != first.topic:
            raise InvalidMessage(f"a batch has one topic: {first.topic} and {message.topic} do not go together")
        if message.properties.get(WAIT) != first.properties.get(WAIT):
            raise InvalidMessage("the messages of a batch must all wait for the store, or none of them")
        if DELAY in message.properties:
            raise InvalidMessage("a delayed message cannot go in a batch")
    if first.topic.startswith(RETRY_PREFIX):
        raise InvalidMessage("messages of a retry topic cannot go in a batch")


def check_group(group: str) -> None:
    """RocketMQ's rules for the name of a group."""
    if not group.strip() or group in _RESERVED_GROUPS:
        raise ClientError(f"{group!r} is no name for a group: give one of your own")
    if len(group) > MAX_GROUP or not all(is_valid_name(part) for part in (group[:MAX_NAME], group[-MAX_NAME:])):
        raise ClientError(f"group {group!r} may have up to {MAX_GROUP} letters, digits and the characters % | _ -")
