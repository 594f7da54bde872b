"""Arguments of listeners by type hint: payload, message, context, headers, dependencies.

A signature is read once, at the decorator; each parameter becomes a `Source`, or an error that names it.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from ariane import Message, ReceivedMessage
from ariane.app.errors import AppError, InvalidPayload
from ariane.app.listen.context import Context
from ariane.app.payload import Payloads, decoder_for, name_of
from ariane.app.runtime import Runtime

Get = Callable[[Context], Any]


@dataclass(frozen=True, slots=True)
class Depends:
    """A parameter that another function supplies: `db: Annotated[Session, Depends(open_session)]`.

    The function's own parameters are filled by the same rules. It may be a coroutine function (for coroutine
    listeners) or a generator, whose rest runs after the listener. Its result is shared within one delivery.
    """

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Header:
    """A parameter from the message's properties: `region: Annotated[str, Header("region")]`."""

    name: str


@dataclass(slots=True)
class Call:
    """A function and where its arguments come from."""

    function: Callable[..., Any]
    name: str
    simple: list[tuple[str, Get]] = field(default_factory=list)
    """Parameters that need nothing but the delivery."""
    nested: list[tuple[str, "Call"]] = field(default_factory=list)
    """Parameters that other functions supply."""
    payload: Any = None
    """The payload's type; None when the function takes none."""
    takes_payload: bool = False
    is_batch: bool = False
    returns: Any = None

    @property
    def is_coroutine(self) -> bool:
        """Whether the function must be awaited."""
        return _is_coroutine(self.function)

    @property
    def needs_loop(self) -> bool:
        """Whether the function or a dependency of it can only run in the event loop."""
        return _needs_loop(self.function) or any(inner.needs_loop for _, inner in self.nested)

    def all_calls(self) -> Iterator["Call"]:
        """This call and those of its dependencies."""
        yield self
        for _, inner in self.nested:
            yield from inner.all_calls()


def read_signature(function: Callable[..., Any], name: str) -> Call:
    """Find out what a function wants; AppError names the parameter that cannot be filled."""
    return _read(function, name, [])


def _read(function: Callable[..., Any], name: str, above: list[Any]) -> Call:
    if function in above:
        raise AppError(f"{name} depends on itself")
    hints = _hints(function, name)
    call = Call(function, name, returns=hints.get("return", inspect.Parameter.empty))
    for parameter in _parameters(function):
        where = f"parameter {parameter.name!r} of {name}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise AppError(f"{where}: a listener's parameters are named one by one")
        hint = hints.get(parameter.name)
        marker = _marker(hint, parameter.default)
        if isinstance(marker, Depends):
            target = marker.function
            inner = _read(target, getattr(target, "__qualname__", repr(target)), [*above, function])
            call.nested.append((parameter.name, inner))
        elif isinstance(marker, Header):
            call.simple.append((parameter.name, _header(marker.name, hint, parameter.default, where)))
        elif hint is None:
            if parameter.default is parameter.empty:
                raise AppError(
                    f"{where} has no type hint: annotate it with the payload's type, ReceivedMessage, Context, "
                    "or Annotated[..., Depends(...)]"
                )
        elif hint is Context:
            call.simple.append((parameter.name, lambda context: context))
        elif hint is ReceivedMessage:
            call.simple.append((parameter.name, lambda context: context.message))
        elif isinstance(hint, type) and issubclass(hint, Runtime):
            call.simple.append((parameter.name, lambda context: context.app))
        elif hint is Message:
            raise AppError(f"{where}: a received message is a ReceivedMessage; Message is for sending")
        else:
            _take_payload(call, parameter.name, hint, where)
    return call


def _take_payload(call: Call, parameter: str, hint: Any, where: str) -> None:
    if call.takes_payload:
        raise AppError(f"{where}: {call.name} has a payload parameter already; use Depends or Header for others")
    call.takes_payload = True
    call.payload = hint
    if hint == list[ReceivedMessage]:
        call.is_batch = True
        call.takes_payload, call.payload = False, None
        call.simple.append((parameter, lambda context: context.messages))
        return
    call.simple.append((parameter, lambda context: context.payload))


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    target = function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__
    if inspect.isclass(function):
        target = function.__init__
    try:
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise AppError(
            f"a type hint of {name} cannot be found ({error}): define or import it at module level"
        ) from None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        return []


def _marker(hint: Any, default: Any) -> Depends | Header | None:
    if isinstance(default, Depends | Header):
        return default
    if get_origin(hint) is Annotated:
        for extra in get_args(hint)[1:]:
            if isinstance(extra, Depends | Header):
                return extra
    return None


def _header(name: str, hint: Any, default: Any, where: str) -> Get:
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint or str
    convert = None if kind is str else decoder_for(kind)
    missing = inspect.Parameter.empty if isinstance(default, Header) else default

    def get(context: Context) -> Any:
        value = context.headers.get(name)
        if value is None:
            if missing is inspect.Parameter.empty:
                raise InvalidPayload(f"{where}: the message has no header {name!r}")
            return missing
        return value if convert is None else convert(value.encode())

    return get


def _is_coroutine(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (an object with an async __call__)
    )


def _needs_loop(function: Callable[..., Any]) -> bool:
    return _is_coroutine(function) or inspect.isasyncgenfunction(function)


def payload_reader(call: Call, payloads: Payloads) -> Callable[[Context], None] | None:
    """What decodes a delivery's payload for a function and its dependencies; None when none of them wants it."""
    kinds = {repr(inner.payload): inner.payload for inner in call.all_calls() if inner.takes_payload}
    if not kinds:
        return None
    if len(kinds) > 1:
        raise AppError(f"{call.name} and its dependencies take different payloads: {', '.join(sorted(kinds))}")
    [kind] = kinds.values()
    if call.is_batch:
        decode_one = payloads.decoder(kind)

        def read_batch(context: Context) -> None:
            context.payload, valid = [], []
            for message in context.messages:
                try:
                    _check_whole(message)
                    context.payload.append(decode_one(message.body, message.properties))
                    valid.append(message)
                except InvalidPayload as error:
                    context.invalid.append((message, error))
            context.messages = valid

        return read_batch
    decode, is_plain = payloads.decoder(kind), payloads.is_plain
    decode_body = decoder_for(kind) if is_plain else None

    def read(context: Context) -> None:
        message = context.message
        if message.decode_error is not None:
            _check_whole(message)
        if decode_body is not None:
            context.payload = decode_body(message.body)
        else:
            context.payload = decode(message.body, message.properties)

    return read


def _check_whole(message: ReceivedMessage) -> None:
    """A body that could not be decompressed is no payload, whatever its bytes look like."""
    if message.decode_error is not None:
        raise InvalidPayload(f"the message is not as its sender wrote it: {message.decode_error}")


def as_batch(call: Call, where: str) -> None:
    """Let the function take lists of payloads, as `batch=` asks for."""
    if call.is_batch:
        return
    if call.takes_payload:
        if get_origin(call.payload) is not list:
            raise AppError(f"{where} takes batches: annotate its payload as list[{name_of(call.payload)}]")
        call.payload = get_args(call.payload)[0]
    call.is_batch = True


# -- calling -----------------------------------------------------------------------------------------------------------


def call_plain(call: Call, context: Context) -> Any:
    """Call a function that needs no event loop."""
    if not call.nested:
        return call.function(**{name: get(context) for name, get in call.simple})
    with ExitStack() as stack:
        return call.function(**_plain_arguments(call, context, stack, {}))


def _plain_arguments(call: Call, context: Context, stack: ExitStack, known: dict[Any, Any]) -> dict[str, Any]:
    arguments = {name: get(context) for name, get in call.simple}
    for name, inner in call.nested:
        if inner.function not in known:
            given = _plain_arguments(inner, context, stack, known)
            if inspect.isgeneratorfunction(inner.function):
                known[inner.function] = stack.enter_context(contextmanager(inner.function)(**given))
            else:
                known[inner.function] = inner.function(**given)
        arguments[name] = known[inner.function]
    return arguments


async def call_in_loop(call: Call, context: Context, run_plain: Callable[..., Any] | None) -> Any:
    """Call any function; `run_plain` runs a plain one in a thread."""
    if not call.nested:
        arguments = {name: get(context) for name, get in call.simple}
        if run_plain is not None:
            return await run_plain(call.function, arguments)
        return await call.function(**arguments)
    async with AsyncExitStack() as stack:
        arguments = await _loop_arguments(call, context, stack, {})
        if run_plain is not None:
            return await run_plain(call.function, arguments)
        return await call.function(**arguments)


async def _loop_arguments(call: Call, context: Context, stack: AsyncExitStack, known: dict[Any, Any]) -> dict[str, Any]:
    arguments = {name: get(context) for name, get in call.simple}
    for name, inner in call.nested:
        function = inner.function
        if function not in known:
            given = await _loop_arguments(inner, context, stack, known)
            if inspect.isasyncgenfunction(function):
                known[function] = await stack.enter_async_context(_entered(function, given))
            elif inspect.isgeneratorfunction(function):
                known[function] = stack.enter_context(contextmanager(function)(**given))
            else:
                result = function(**given)
                known[function] = await result if inspect.isawaitable(result) else result
        arguments[name] = known[function]
    return arguments


def _entered(function: Callable[..., AsyncIterator[Any]], given: dict[str, Any]) -> Any:
    return asynccontextmanager(function)(**given)
