"""Where users look in: before and after a send, before and after a consumption, and a veto on sending."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVar

from ariane.client.results import SendResult
from ariane.message import Message, MessageQueue, ReceivedMessage

log = logging.getLogger("ariane.client")


class SendMode(Enum):
    """How a message is sent."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    ONEWAY = "ONEWAY"


@dataclass(slots=True)
class SendContext:
    """One try to send. `result` or `error` is set when it is over."""

    group: str
    message: Message
    message_id: str
    queue: MessageQueue
    broker_address: str
    mode: SendMode
    client_address: str
    properties: dict[str, str]
    """What travels with the message; a hook may add to it before it is sent."""
    result: SendResult | None = None
    error: Exception | None = None
    notes: dict[str, object] = field(default_factory=dict)
    """For a hook's own use, between its two calls."""


@dataclass(slots=True)
class ConsumeContext:
    """One call of a listener. `status` and `success` are set when it is over."""

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
    """A local transaction that is over."""

    group: str
    message: Message | ReceivedMessage
    message_id: str
    broker_address: str
    state: str
    transaction_id: str
    from_check: bool
    client_address: str


class SendHook(Protocol):
    """Sees each try to send. What it raises is logged and changes nothing."""

    def before_send(self, context: SendContext) -> None: ...

    def after_send(self, context: SendContext) -> None: ...


class ForbidHook(Protocol):
    """May refuse a message: what it raises goes to the caller of `send`."""

    def check_forbidden(self, context: SendContext) -> None: ...


class ConsumeHook(Protocol):
    """Sees each call of a listener. What it raises is logged and changes nothing."""

    def before_consume(self, context: ConsumeContext) -> None: ...

    def after_consume(self, context: ConsumeContext) -> None: ...


class TransactionHook(Protocol):
    """Sees the end of each local transaction."""

    def end_transaction(self, context: EndTransactionContext) -> None: ...


Context = TypeVar("Context")


def call_hooks(hooks: Iterable[Callable[[Context], None]], context: Context) -> None:
    """Call each hook; one that fails does not stop the others, nor the message."""
    for hook in hooks:
        try:
            hook(context)
        except Exception:
            log.warning("hook %r failed", hook, exc_info=True)
