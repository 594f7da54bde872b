"""Listeners: what users write to consume messages."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

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
    """The listener as one that takes both arguments."""
    call: Callable[..., Any] = listener
    try:
        positional = [
            parameter
            for parameter in inspect.signature(listener).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL)
        ]
    except ValueError:  # a built-in without a signature: it takes what it is given
        return call
    takes_both = len(positional) > 1 or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in positional)
    return call if takes_both else lambda messages, _: call(messages)
