"""Listeners: the functions that users write to consume messages."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ariane.client.producer.checks import accepts
from ariane.errors import ClientError
from ariane.message import MessageQueue, ReceivedMessage


class ConsumeStatus(Enum):
    """The result of a listener call. None, any other value, and exceptions mean RECONSUME_LATER."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    SUCCESS = CONSUME_SUCCESS
    RECONSUME_LATER = "RECONSUME_LATER"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    COMMIT = "COMMIT"
    """For an orderly listener without auto-commit: commit all messages delivered so far."""
    ROLLBACK = "ROLLBACK"
    """For an orderly listener without auto-commit: deliver all uncommitted messages again."""


class Unfinished(Exception):
    """The consumer was closed before the message was acknowledged: it stays uncommitted and is delivered again."""


@dataclass(slots=True)
class Delivery:
    """Details of a delivery, passed as the second argument; a listener may set all but the queue."""

    queue: MessageQueue
    delay_level: int = 0
    """Concurrent: the delay level of a failed message. 0: the broker decides; -1: no retry, a dead letter at once."""
    ack_index: int = 1 << 30
    """Concurrent: on success, messages of the batch after this index count as failed."""
    auto_commit: bool = True
    """Orderly: whether a success commits."""
    suspend: float | None = None
    """Orderly: how long to pause the queue after a failure, in seconds."""


Answer = ConsumeStatus | None
Listener = (
    Callable[[list[ReceivedMessage]], Answer]
    | Callable[[list[ReceivedMessage], Delivery], Answer]
    | Callable[[list[ReceivedMessage]], Awaitable[Answer]]
    | Callable[[list[ReceivedMessage], Delivery], Awaitable[Answer]]
)
"""A function or coroutine function of the messages, or of the messages and a `Delivery`."""

Call = Callable[..., Any]


def is_coroutine(listener: Listener) -> bool:
    """Whether the listener is a coroutine function."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(type(listener).__call__)


def takes_delivery(listener: Listener) -> bool:
    """Whether the listener takes a Delivery, too; ClientError when its signature does not fit."""
    if not callable(listener):
        raise ClientError(f"{listener!r} is not a listener: give a function of a list of messages")
    if inspect.isgeneratorfunction(listener) or inspect.isasyncgenfunction(listener):
        raise ClientError(f"{listener!r} is not a listener: it yields, and must return a ConsumeStatus")
    if accepts(listener, 2):
        return True
    if accepts(listener, 1):
        return False
    raise ClientError(f"{listener!r} is not a listener: it must take a list of messages, and may take a Delivery")
