"""Listeners: what users write to consume messages."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ariane.client.producer.checks import accepts
from ariane.errors import ClientError
from ariane.message import MessageQueue, ReceivedMessage


class ConsumeStatus(Enum):
    """What a listener says. None, and exceptions, mean the same as RECONSUME_LATER."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    SUCCESS = CONSUME_SUCCESS
    RECONSUME_LATER = "RECONSUME_LATER"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    COMMIT = "COMMIT"
    """Of an orderly listener without auto-commit: all that was taken so far is done."""
    ROLLBACK = "ROLLBACK"
    """Of an orderly listener without auto-commit: take all of it again."""


class Unfinished(Exception):
    """A listener was stopped before it could answer: the message stays as it was, and comes again."""


@dataclass(slots=True)
class Delivery:
    """What a listener may know and say beside its answer; it comes as the second argument if there is one."""

    queue: MessageQueue
    delay_level: int = 0
    """Concurrent: when to come back. 0: the broker decides; -1: never, straight to the dead letters."""
    ack_index: int = 1 << 30
    """Concurrent: with a success, messages of the batch behind this index have failed."""
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

Call = Callable[[list[ReceivedMessage], Delivery], Any]


def is_coroutine(listener: Listener) -> bool:
    """Whether the listener must be awaited."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(type(listener).__call__)


def with_delivery(listener: Listener) -> Call:
    """The listener as one that takes both arguments; ClientError when it is no listener."""
    call: Callable[..., Any] = listener
    if not callable(listener):
        raise ClientError(f"{listener!r} is no listener: give a function of a list of messages")
    if inspect.isgeneratorfunction(listener) or inspect.isasyncgenfunction(listener):
        raise ClientError(f"{listener!r} is no listener: it yields, and must return a ConsumeStatus")
    if accepts(call, 2):
        return call
    if accepts(call, 1):
        return lambda messages, _: call(messages)
    raise ClientError(f"{listener!r} is no listener: it must take a list of messages, and may take a Delivery too")
