"""A listener: a function, where its messages come from, and what becomes of its result."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypedDict, TypeVar
from unittest.mock import MagicMock

from pydantic import ValidationError

from ariane import ReceivedMessage, Sql
from ariane.app.clients import ConsumingClient
from ariane.app.errors import AppError, InvalidPayload, SettingsError
from ariane.app.listen.arguments import Call, as_batch, read_signature
from ariane.app.listen.context import Context
from ariane.app.listen.figures import ListenerFigures
from ariane.app.send.outgoing import SendKeywords
from ariane.app.settings import ListenerSettings, Settings, TlsSettings, explain
from ariane.message import is_valid_name

P = ParamSpec("P")
R = TypeVar("R")
Next = Callable[[Context], Awaitable[Any]]
HandleMiddleware = Callable[[Context, Next], Awaitable[Any]]
"""`async def middleware(context, call_next)`: returns what `call_next(context)` gives, or something else."""
InvalidHandler = Callable[[ReceivedMessage, InvalidPayload], Any]
"""Gets each message whose payload is not of the declared type; the message then counts as consumed."""


class Guarantee(Protocol):
    """What `guarantee=` takes: a middleware that stands right around the function, inside all others."""

    async def __call__(self, context: Context, call_next: Next) -> Any: ...


class ListenerKeywords(TypedDict, total=False):
    """Keywords of `@app.listener`; `ListenerSettings` explains those that settings can change."""

    group: str
    name: str
    """Its name in settings, metrics and documents; the function's when not given."""
    tags: str
    sql: str | Sql
    orderly: bool
    broadcast: bool
    concurrency: int
    batch: int
    max_retries: int
    retry_delay: int | Sequence[int]
    suspend: float
    start_at: Literal["last", "first"] | datetime
    timeout: float
    reply: bool
    reply_timeout: float
    on_invalid: Literal["retry", "dead_letter", "skip"] | InvalidHandler
    enabled: bool
    pull_batch: int
    pull_interval: float
    trace: bool
    trace_topic: str
    cluster: str
    name_servers: str | Sequence[str]
    namespace: str
    access_key: str
    secret_key: str
    tls: TlsSettings | Mapping[str, Any]
    instance_name: str
    filter: Callable[[ReceivedMessage], bool]
    """Messages for which it is false count as consumed, unseen."""
    middlewares: Sequence[HandleMiddleware]
    guarantee: Guarantee
    prepare_start: Callable[[Any], Any]
    """Called with the consumer before it starts."""


_NOT_SETTINGS = frozenset({"name", "filter", "middlewares", "guarantee", "prepare_start"})


class Publication:
    """Where a function's results go."""

    __slots__ = ("cluster", "destination", "hash_field", "keywords")

    def __init__(
        self, destination: str, cluster: str | None, keywords: SendKeywords, hash_field: str | None = None
    ) -> None:
        self.destination = destination
        self.cluster = cluster
        self.keywords = keywords
        self.hash_field = hash_field
        """The payload's field whose equal values stay in order."""

    def keywords_for(self, payload: Any) -> SendKeywords:
        """How to send a payload."""
        name = self.hash_field
        if name is None:
            return self.keywords
        found = payload.get(name) if isinstance(payload, Mapping) else getattr(payload, name, None)
        if found is None:
            raise SettingsError(f"hash_key {name!r} of a binding: the payload {payload!r} has no such field")
        return {**self.keywords, "hash_key": str(found)}


PUBLICATIONS = "__ariane_publications__"  # on a function: what @app.publisher left for @app.listener


class Listener(Generic[P, R]):
    """A function that listens to a topic. Calling it calls the function, as if it were not decorated."""

    def __init__(self, handler: Callable[P, R], topics: tuple[str, ...], keywords: ListenerKeywords) -> None:
        target = handler() if inspect.isclass(handler) else handler
        function = getattr(target, "on_message", target)
        self.name: str = keywords.get("name") or _name(handler)
        if not callable(function):
            raise AppError(f"listener {self.name}: decorate a function, or a class with a method on_message")
        for topic in topics:
            if not is_valid_name(topic):
                raise AppError(
                    f"listener {self.name}: {topic!r} is no topic: letters, digits, % | _ - only; "
                    "choose tags with tags='a || b'"
                )
        self.handler = handler
        self.topics = topics
        self.call: Call = read_signature(function, self.name)
        self.figures = ListenerFigures()
        self.publications: list[Publication] = list(getattr(function, PUBLICATIONS, ()))
        self.keywords = dict(keywords)
        self.filter = keywords.get("filter")
        self.middlewares = tuple(keywords.get("middlewares", ()))
        self.guarantee = keywords.get("guarantee")
        self.prepare_start = keywords.get("prepare_start") or getattr(target, "prepare_start", None)
        on_invalid = keywords.get("on_invalid")
        self.invalid_handler: InvalidHandler | None = None
        if callable(on_invalid):
            self.invalid_handler = on_invalid
            del self.keywords["on_invalid"]
        if isinstance(sql := self.keywords.get("sql"), Sql):
            self.keywords["sql"] = sql.expression
        self.consumer: ConsumingClient | None = None
        self._mock: MagicMock | None = None
        self.is_recorded = False
        own = self._check(self.keywords)
        if own.batch > 1:
            as_batch(self.call, self.name)
        if own.reply and self.call.is_batch:
            raise AppError(f"listener {self.name}: reply=True answers one message: leave batch= out")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.call.function(*args, **kwargs)
        return result

    @property
    def mock(self) -> MagicMock:
        """Inside `TestApp`: records the payloads that the listener got."""
        if self._mock is None:
            raise AppError(f"{self.name}.mock is there inside `async with TestApp(app):` only")
        return self._mock

    def record(self, mock: MagicMock | None) -> None:
        """Record payloads in a mock from now on."""
        self._mock = mock
        self.is_recorded = mock is not None

    def note_payload(self, context: Context) -> None:
        """Tell the mock."""
        if self._mock is not None:
            self._mock(context.payload if self.call.takes_payload else context.message)

    def settings(self, app: Settings) -> ListenerSettings:
        """What applies in an application: its defaults, then the keywords, then `listeners.<name>`."""
        named = app.listeners.get(self.name)
        changes = {} if named is None else named.model_dump(exclude_unset=True)
        found = self._check(app.consumer.model_dump(exclude_unset=True) | self._known(self.keywords) | changes)
        if found.group is None:
            raise SettingsError(
                f"listener {self.name} has no group: say @app.listener(..., group='...') or "
                f"listeners.{self.name}.group in the settings"
            )
        if (found.group, self.topics_of(found)[0]) in app.disabled_listeners:
            found = found.model_copy(update={"enabled": False})
        return found

    @property
    def handles_invalid(self) -> bool:
        """Whether a function gets its invalid messages."""
        return self.invalid_handler is not None

    def topics_of(self, settings: ListenerSettings) -> tuple[str, ...]:
        """The topics, unless the settings name another one."""
        return self.topics if settings.topic is None else (settings.topic,)

    def _known(self, keywords: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in keywords.items() if name not in _NOT_SETTINGS}

    def _check(self, keywords: dict[str, Any]) -> ListenerSettings:
        try:
            found = ListenerSettings(**self._known(keywords))
        except ValidationError as error:
            raise SettingsError(f"listener {self.name}: {explain(error, ListenerSettings)}") from None
        if found.sql is not None and found.tags != "*":
            raise SettingsError(f"listener {self.name}: tags and sql contradict each other: give one of them")
        if found.broadcast and found.orderly:
            raise SettingsError(f"listener {self.name}: broadcast and orderly do not go together")
        if found.orderly and found.batch > 1 and found.on_invalid == "dead_letter":
            raise SettingsError(
                f"listener {self.name}: orderly batches are consumed whole: on_invalid is retry, skip or a function"
            )
        return found

    def __repr__(self) -> str:
        return f"<Listener {self.name} of {', '.join(self.topics)}>"


def _name(handler: Any) -> str:
    return str(getattr(handler, "__name__", type(handler).__name__))
