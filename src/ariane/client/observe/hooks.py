"""Hooks: before and after a send, before and after a listener call, a veto on sends, the end of a transaction."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVar

from ariane.client.results import SendResult
from ariane.message import Message, MessageQueue, ReceivedMessage

log = logging.getLogger("ariane.client")


class SendMode(Enum):
    """The way a message is sent."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    ONEWAY = "ONEWAY"


@dataclass(slots=True)
class SendContext:
    """One attempt to send. `result` or `error` is set when it ends."""

    group: str
    message: Message
    message_id: str
    queue: MessageQueue
    broker_address: str
    mode: SendMode
    client_address: str
    properties: dict[str, str]
    """The properties that are sent; a hook may add to them before."""
    result: SendResult | None = None
    error: Exception | None = None
    notes: dict[str, object] = field(default_factory=dict)
    """For a hook's own use between its two calls."""


@dataclass(slots=True)
class ConsumeContext:
    """One listener call. `status` and `success` are set when it ends."""

    group: str
    queue: MessageQueue
    messages: list[ReceivedMessage]
    client_id: str
    client_address: str
    status: str = ""
    success: bool = False
    returned: str = ""
    """SUCCESS, FAILED, TIME_OUT, EXCEPTION or RETURNNULL."""
    notes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndTransactionContext:
    """A local transaction that has ended."""

    group: str
    message: Message | ReceivedMessage
    message_id: str
    broker_address: str
    state: str
    transaction_id: str
    from_check: bool
    client_address: str


class SendHook(Protocol):
    """Called around each attempt to send. Its errors are logged and change nothing."""

    def before_send(self, context: SendContext) -> None: ...

    def after_send(self, context: SendContext) -> None: ...


class ForbidHook(Protocol):
    """May refuse a message: its error is raised to the caller of `send`."""

    def check_forbidden(self, context: SendContext) -> None: ...


class ConsumeHook(Protocol):
    """Called around each listener call. Its errors are logged and change nothing."""

    def before_consume(self, context: ConsumeContext) -> None: ...

    def after_consume(self, context: ConsumeContext) -> None: ...


class TransactionHook(Protocol):
    """Called at the end of each local transaction."""

    def end_transaction(self, context: EndTransactionContext) -> None: ...


Context = TypeVar("Context")


def call_hooks(hooks: Iterable[Callable[[Context], None]], context: Context) -> None:
    """Call each hook; an error of one stops neither the others nor the message."""
    for hook in hooks:
        try:
            hook(context)
        except Exception:
            log.warning("hook %r failed", hook, exc_info=True)
