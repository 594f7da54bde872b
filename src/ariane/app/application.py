"""The application: settings, listeners, transactions and the template, started and stopped together."""

import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, Unpack

from ariane.app.bindings import Bindings
from ariane.app.clients import name_servers_of
from ariane.app.errors import AppError, SettingsError
from ariane.app.listen.delivery import Handling
from ariane.app.listen.listener import (
    PUBLICATIONS,
    HandleMiddleware,
    Listener,
    ListenerKeywords,
    Publication,
)
from ariane.app.payload import Converter, Payloads
from ariane.app.runtime import Runtime
from ariane.app.send.outgoing import SendKeywords
from ariane.app.send.template import SendMiddleware
from ariane.app.send.transactions import TransactionListener
from ariane.app.settings import ListenerSettings, Settings, SettingsKeywords, load_settings
from ariane.app.sync import SyncApp

log = logging.getLogger("ariane.app")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class ListenerDecorator(Protocol):
    """What `@app.listener(...)` does to a function or class."""

    def __call__(self, handler: Callable[P, R], /) -> Listener[P, R]: ...


class TransactionDecorator(Protocol):
    """What `@app.transaction_listener(...)` does to a function or class."""

    def __call__(self, handler: Callable[P, R], /) -> TransactionListener[P, R]: ...


@dataclass(slots=True)
class Running:
    """A listener that was started."""

    listener: Listener[..., Any]
    settings: ListenerSettings
    handling: Handling


class Ariane(Runtime):
    """An application. Decorate functions with it, then run it.

    >>> app = Ariane("shop", name_servers="127.0.0.1:9876")
    >>> @app.listener("orders", group="stock", tags="paid || refunded")
    ... async def reserve(order: dict[str, int]) -> None:
    ...     print(order)
    >>> reserve.topics
    ('orders',)
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        config: str | Path | None = None,
        settings: Settings | None = None,
        converters: tuple[Converter, ...] | list[Converter] = (),
        **values: Unpack[SettingsKeywords],
    ) -> None:
        if settings is not None and (config is not None or values):
            raise AppError("settings= is complete: give config= and keywords to load_settings() instead")
        named = {} if name is None else {"name": name}
        found = settings if settings is not None else load_settings(config, **named, **values)
        super().__init__(found, Payloads(converters))
        self.handle_middlewares: list[HandleMiddleware] = []
        self.listeners: list[Listener[..., Any]] = []
        self.transaction_listeners: list[TransactionListener[..., Any]] = []
        self.publications: list[tuple[Publication, Any]] = []
        """What @app.publisher declared, with the type that the function returns."""
        self.bindings = Bindings()
        self.sync = SyncApp(self)
        self._on_start: list[Callable[[], Any]] = []
        self._on_stop: list[Callable[[], Any]] = []
        self._running: list[Running] = []
        self._ready = False

    # -- decorators ------------------------------------------------------------------------------------------------

    def listener(self, topic: str, /, *more: str, **keywords: Unpack[ListenerKeywords]) -> ListenerDecorator:
        """Have a function, or a class with `on_message`, called with each message of a topic (or several)."""

        def decorate(handler: Callable[P, R], /) -> Listener[P, R]:
            listener: Listener[P, R] = Listener(handler, (topic, *more), keywords)
            self._add(listener)
            return listener

        return decorate

    def _add(self, listener: Listener[..., Any]) -> None:
        if self._loop is not None:
            raise AppError(f"listener {listener.name} comes too late: add listeners before the application starts")
        if any(other.name == listener.name for other in self.listeners):
            raise AppError(f"there are two listeners named {listener.name!r}: give one of them name='...'")
        self.listeners.append(listener)
        self.publications += [(each, listener.call.returns) for each in listener.publications]

    def publisher(
        self, destination: str, *, cluster: str | None = None, **keywords: Unpack[SendKeywords]
    ) -> Callable[[F], F]:
        """Send what a listener returns to another destination; stands above or below `@app.listener`."""

        def decorate(function: F) -> F:
            publication = Publication(destination, cluster, keywords)
            if isinstance(function, Listener):
                function.publications.append(publication)
                self.publications.append((publication, function.call.returns))
            else:
                setattr(function, PUBLICATIONS, [*getattr(function, PUBLICATIONS, ()), publication])
            return function

        return decorate

    def transaction_listener(self, group: str, *, cluster: str | None = None) -> TransactionDecorator:
        """Have a class with `execute` and `check`, or a function, decide about transactions of a producer group."""

        def decorate(handler: Callable[P, R], /) -> TransactionListener[P, R]:
            if any(other.group == group for other in self.transaction_listeners):
                raise AppError(f"there are two transaction listeners of group {group!r}: give each its own group")
            listener: TransactionListener[P, R] = TransactionListener(group, handler, cluster)
            self.transaction_listeners.append(listener)
            return listener

        return decorate

    def function(self, function: F) -> F:
        """A function whose input and output are destinations in the settings: `bindings.<name>-in-0`, `-out-0`."""
        self.bindings.add(function)
        return function

    def around_handle(self, middleware: HandleMiddleware) -> HandleMiddleware:
        """Run `async def middleware(context, call_next)` around every listener; the first registered is outermost."""
        self.handle_middlewares.append(middleware)
        return middleware

    def around_send(self, middleware: SendMiddleware) -> SendMiddleware:
        """Run `async def middleware(message, call_next)` around every send; the first registered is outermost."""
        self._send_middlewares.append(middleware)
        return middleware

    def on_start(self, function: F) -> F:
        """Call a function (or await a coroutine) before listeners start; the template can be used."""
        self._on_start.append(function)
        return function

    def on_stop(self, function: F) -> F:
        """Call a function (or await a coroutine) after listeners have stopped; the template can be used."""
        self._on_stop.append(function)
        return function

    # -- parts -----------------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[Running]:
        """The listeners that were started."""
        return self._running

    @property
    def is_ready(self) -> bool:
        """Whether everything was started and nothing was stopped yet."""
        return self._ready

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start producers, then listeners. When one fails, those before it are stopped."""
        if self._loop is not None:
            raise AppError("the application is running already")
        plan = self._plan()
        self._open()
        try:
            await self._start_producers(self.transaction_listeners)
            for hook in self._on_start:
                await _call(hook)
            for listener, settings in plan:
                await self._start_listener(listener, settings)
            self.bindings.start_sources(self)
        except BaseException:
            await self.stop()
            raise
        self._ready = True

    def _plan(self) -> list[tuple[Listener[..., Any], ListenerSettings]]:
        """Listeners and what applies to them, checked as a whole before anything is started."""
        listeners = [*self.listeners, *self.bindings.listeners(self.settings)]
        for name in self.settings.listeners:
            if all(listener.name != name for listener in listeners):
                known = ", ".join(sorted(listener.name for listener in listeners)) or "none"
                raise SettingsError(f"listeners.{name}: the application has no such listener (it has: {known})")
        plan = [(listener, listener.settings(self.settings)) for listener in listeners]
        taken: dict[tuple[str | None, str | None], str] = {}
        for listener, settings in plan:
            if not settings.enabled:
                continue
            key = (settings.cluster, settings.group)
            if key in taken:
                raise SettingsError(
                    f"listeners {taken[key]} and {listener.name} have one group, {settings.group!r}: consumers of a "
                    "group must all subscribe alike, so give each listener its own"
                )
            taken[key] = listener.name
            self.settings.cluster_named(settings.cluster)
        return plan

    async def _start_listener(self, listener: Listener[..., Any], settings: ListenerSettings) -> None:
        if not settings.enabled:
            log.info("listener %s is switched off by its settings", listener.name)
            return
        assert settings.group is not None
        handling = Handling(self, listener, settings, self.handle_middlewares)
        consumer = self.clients.consumer(
            self.settings.cluster_named(settings.cluster), settings.group, listener.topics_of(settings),
            handling.deliver, settings, self.settings.stop_timeout,
        )  # fmt: skip
        if listener.prepare_start is not None:
            await _call(lambda: listener.prepare_start(consumer))  # type: ignore[misc]
        listener.consumer = consumer
        self._running.append(Running(listener, settings, handling))
        await self._start_client(consumer)

    async def stop(self) -> None:
        """Let handlers under way finish, store offsets, then stop producers."""
        if self._loop is None:
            return
        self._ready = False
        errors: list[Exception] = []
        try:
            await self.bindings.stop_sources()
            consumers = [running.listener.consumer for running in self._running]
            await self._close([client for client in self._started if client in consumers], errors)
            for hook in self._on_stop:
                try:
                    await _call(hook)
                except Exception as error:
                    errors.append(error)
            await self._close([client for client in reversed(self._started) if client not in consumers], errors)
        finally:
            for running in self._running:
                running.handling.close()
                running.listener.consumer = None
            self._running = []
            self._shut()
        if errors:
            raise errors[0]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @asynccontextmanager
    async def lifespan(self, web: object = None) -> AsyncIterator[None]:
        """For FastAPI and Starlette: `FastAPI(lifespan=app.lifespan)`."""
        async with self:
            yield

    def describe(self) -> list[tuple[str, str]]:
        """What the start screen shows: pairs of a name and a text."""
        facts = [("application", self.name), ("name servers", "; ".join(name_servers_of(self.settings.cluster)))]
        for name, cluster in self.settings.clusters.items():
            facts.append((f"cluster {name}", "; ".join(name_servers_of(cluster))))
        facts.append(("producer group", self.settings.producer.group or self.name))
        for transaction in self.transaction_listeners:
            facts.append(("transactions", f"group {transaction.group}"))
        for listener, settings in self._plan():
            facts.append((f"listener {listener.name}", _describe(listener, settings)))
        return facts


def _describe(listener: Listener[..., Any], settings: ListenerSettings) -> str:
    wanted = f"where {settings.sql}" if settings.sql is not None else f"tags {settings.tags}"
    how = [
        "orderly" if settings.orderly else "concurrent",
        *(["broadcast"] if settings.broadcast else []),
        *([f"batches of {settings.batch}"] if settings.batch > 1 else []),
        *(["replies"] if settings.reply else []),
        *([] if settings.enabled else ["switched off"]),
    ]
    topics = ", ".join(listener.topics_of(settings))
    return f"topic {topics}, group {settings.group}, {wanted}, {', '.join(how)}"


async def _call(hook: Callable[[], Any]) -> None:
    result = hook()
    if inspect.isawaitable(result):
        await result
