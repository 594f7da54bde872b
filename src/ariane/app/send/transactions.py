"""Transaction listeners: a local transaction, and the answer to a broker that asks what became of it."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

from ariane import Message, ReceivedMessage, SendResult, TransactionState
from ariane.app.errors import AppError
from ariane.app.payload import Payloads

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])


class TransactionListener(Generic[P, R]):
    """The local side of the transactions of one producer group.

    Made of a class with `execute` and `check`, or of a function that executes, whose `check` decorates another one.
    The first parameter is the payload (or the message itself), by its type hint; the second one of `execute` is what
    `send_in_transaction` was given as `arg`.
    """

    def __init__(self, group: str, handler: Callable[P, R], cluster: str | None) -> None:
        self.group = group
        self.cluster = cluster
        self.handler = handler
        self._check: _Question | None = None
        if inspect.isclass(handler) or hasattr(handler, "execute"):
            target: Any = handler() if inspect.isclass(handler) else handler
            for method in ("execute", "check"):
                if not callable(getattr(target, method, None)):
                    raise AppError(f"transaction listener {group}: {target!r} has no method {method}")
            self._execute = _Question(target.execute, f"{group}.execute", most=2)
            self._check = _Question(target.check, f"{group}.check", most=1)
        else:
            self._execute = _Question(handler, f"transaction listener {group}", most=2)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.handler(*args, **kwargs)

    def check(self, function: C) -> C:
        """Decorates the function that brokers' questions are answered by."""
        self._check = _Question(function, f"check of transaction listener {self.group}", most=1)
        return function

    def bind(self, payloads: Payloads) -> "BoundTransactions":
        """The listener as a transaction producer needs it."""
        if self._check is None:
            raise AppError(
                f"transaction listener {self.group} has no check: decorate one with "
                f"@{getattr(self.handler, '__name__', 'listener')}.check, or brokers would get no answer"
            )
        return BoundTransactions(self._execute, self._check, payloads)

    @property
    def payload(self) -> Any:
        """The payload's type."""
        return self._execute.hint


class BoundTransactions:
    """Calls the user's functions with payloads; plain functions run in threads."""

    def __init__(self, execute: "_Question", check: "_Question", payloads: Payloads) -> None:
        self._execute = execute
        self._check = check
        self._payloads = payloads

    async def execute(self, message: Message, result: SendResult, argument: Any) -> TransactionState | None:
        """Do the local transaction."""
        payload, arg = argument
        return await self._execute.ask(self._payloads, message, arg, payload)

    async def check(self, message: ReceivedMessage) -> TransactionState | None:
        """Say what became of it."""
        return await self._check.ask(self._payloads, message)


_NO_PAYLOAD = object()


class _Question:
    """A user's function of a payload, and perhaps an argument."""

    def __init__(self, function: Callable[..., Any], where: str, most: int) -> None:
        parameters = list(inspect.signature(function).parameters.values())
        if not 1 <= len(parameters) <= most:
            wanted = "the payload" if most == 1 else "the payload and, if wanted, the argument"
            raise AppError(f"{where} takes {wanted}, not {len(parameters)} parameters")
        self.function = function
        self.takes_argument = len(parameters) == 2
        hint = get_type_hints(function).get(parameters[0].name)
        if hint is None:
            raise AppError(f"parameter {parameters[0].name!r} of {where} has no type hint: annotate the payload's type")
        self.hint = hint

    async def ask(
        self, payloads: Payloads, message: Message | ReceivedMessage, arg: Any = None, payload: Any = _NO_PAYLOAD
    ) -> TransactionState | None:
        given = self._given(payloads, message, payload)
        arguments = (given, arg) if self.takes_argument else (given,)
        if inspect.iscoroutinefunction(self.function):
            state = await self.function(*arguments)
        else:
            state = await asyncio.to_thread(self.function, *arguments)
        if state is not None and not isinstance(state, TransactionState):
            raise TypeError(f"a transaction listener returns a TransactionState, not {state!r}")
        return state

    def _given(self, payloads: Payloads, message: Message | ReceivedMessage, payload: Any) -> Any:
        if self.hint in (Message, ReceivedMessage, Message | ReceivedMessage):
            return message
        if isinstance(self.hint, type) and isinstance(payload, self.hint):
            return payload
        return payloads.decoder(self.hint)(message.body, message.properties)
