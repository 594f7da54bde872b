"""What a page gets: who looks, at which cluster, in which language, and the parts of the console."""

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode

from nicegui import ui

from ariane.console.audit import AuditLog
from ariane.console.changes import Changes
from ariane.console.cluster import Cluster
from ariane.console.people.users import Users
from ariane.console.people.visitor import SessionEnded, Visitor
from ariane.console.rights import Forbidden
from ariane.console.schemas import Schemas
from ariane.console.texts import text
from ariane.console.watch.alarms import Alarms
from ariane.console.watch.history import History
from ariane.console.watch.notices import Notifier
from ariane.errors import ArianeError

T = TypeVar("T")
log = logging.getLogger(__name__)


class Parts(Protocol):
    """The parts of the console that pages use."""

    users: Users
    audit: AuditLog
    changes: Changes
    clusters: dict[str, Cluster]
    history: History
    alarms: Alarms
    notifier: Notifier
    schemas: Schemas
    pages: frozenset[str]

    def now(self) -> int:
        """The wall clock in milliseconds."""


@dataclass(frozen=True)
class View:
    """One page in one browser."""

    console: Parts
    visitor: Visitor
    cluster: Cluster
    page: str
    query: dict[str, str]
    loaders: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What `every` calls; called at once after a change, too."""
    tables: list[str] = field(default_factory=list)
    """The tables whose filter, order and page the address has: the first large one of the page."""

    def t(self, key: str, /, **values: object) -> str:
        """A text in the visitor's language."""
        found = text(self.visitor.session.language, key)
        return found.format(**values) if values else found

    def link(self, page: str, **query: str) -> str:
        """The address of a page of this cluster."""
        return page_link(self.cluster.name, page, **query)

    def put(self, **values: str) -> None:
        """Change the page's address, so that it can be sent to others; what is empty is left out."""
        self.query.update(values)
        for name in [name for name, value in self.query.items() if not value]:
            del self.query[name]
        ui.navigate.history.replace(self.link(self.page, **self.query))

    def check(self) -> None:
        """Refuse to show more when the session is over, or the role may not see the page any more."""
        if not self.visitor.may_look(self.page):
            raise Forbidden("your role may not see this page any more")

    def failed(self, error: Exception) -> None:
        """Show an error of a page that is open; without a session or the right to see it, leave it."""
        if isinstance(error, SessionEnded):
            ui.navigate.to(f"/login?next={quote(self.link(self.page, **self.query), safe='')}")
        elif isinstance(error, Forbidden) and not self.visitor.may_look(self.page):
            ui.navigate.reload()
        else:
            if not isinstance(error, ArianeError | ValueError | OSError):
                log.error("the page %s failed", self.page, exc_info=error)
            text = str(error) or type(error).__name__
            ui.notify(text, type="negative", multi_line=True, close_button="OK", timeout=10_000)

    async def attempt(self, work: Awaitable[T], done: str | None = None) -> T | None:
        """Await a change or a query; an error is shown, and None returned."""
        try:
            result = await work
        except (ArianeError, ValueError, OSError, sqlite3.Error) as error:
            self.failed(error)
            return None
        if done is not None:
            ui.notify(done, type="positive")
            for load in self.loaders:
                await load()
        return result

    async def made(self, work: Awaitable[object], done: str) -> bool:
        """Await a change that returns nothing; whether it was made."""

        async def marked() -> bool:
            await work
            return True

        return await self.attempt(marked(), done) is True

    def trend(self, figure: str, name: str, hours: float) -> list[tuple[int, float]]:
        """The last hours of a figure of this cluster."""
        now = self.console.now()
        return self.console.history.series(self.cluster.name, figure, name, now - int(hours * 3_600_000), now)

    def every(self, seconds: float, load: Callable[[], Awaitable[None]]) -> None:
        """Call a loader now and again while the page is open; what fails is told in a line above the content."""
        problem = ui.label().classes("problem").props("role=alert")
        problem.set_visibility(False)
        problem.move(target_index=0)

        async def step() -> None:
            try:
                self.check()
                await load()
            except (SessionEnded, Forbidden) as error:
                self.failed(error)
                return
            except (ArianeError, OSError, sqlite3.Error) as error:
                problem.set_text(self.t("problem", error=error))
                problem.set_visibility(True)
                return
            problem.set_visibility(False)

        self.loaders.append(step)
        ui.timer(seconds, step)


def page_link(cluster: str, page: str, **query: str) -> str:
    """The address of a page.

    >>> page_link("main", "topic", name="%RETRY%a b")
    '/c/main/topic?name=%25RETRY%25a+b'
    """
    return f"/c/{quote(cluster, safe='')}/{page}" + (f"?{urlencode(query)}" if query else "")


def time_text(ms: int) -> str:
    """A time in milliseconds as text, in UTC; a dash for none.

    >>> time_text(0), time_text(1_700_000_000_000)
    ('-', '2023-11-14 22:13:20')
    """
    return "-" if ms <= 0 else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def moment_text(ms: int) -> str:
    """A time to the millisecond.

    >>> moment_text(1_700_000_000_012)
    '2023-11-14 22:13:20.012'
    """
    return "-" if ms <= 0 else f"{time_text(ms)}.{ms % 1000:03}"


def duration_text(ms: float) -> str:
    """A duration as text.

    >>> [duration_text(ms) for ms in (0, 850, 61_000, 7_260_000, 200_000_000)]
    ['0', '0.8 s', '1 min 1 s', '2 h 1 min', '2 d 7 h']
    """
    seconds = ms / 1000
    if seconds <= 0:
        return "0"
    if seconds < 60:
        return f"{seconds:.1f} s"
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for (unit, size), (small, part) in pairwise(units):
        if seconds >= size:
            rest = int(seconds % size // part)
            return f"{int(seconds // size)} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{seconds:.0f} s"


def without_secret(name: str, value: str) -> str:
    """A value as a page shows it: none of secrets.

    >>> without_secret("secretKey", "abc"), without_secret("brokerName", "a")
    ('***', 'a')
    """
    secret = any(word in name.lower() for word in ("secret", "password", "token"))
    return "***" if secret and value else value


def count_text(count: float) -> str:
    """A number in few letters, for tiles and pictures.

    >>> [count_text(count) for count in (7, 12345, 1234567, 0.5, 3.0)]
    ['7', '12.3 k', '1.23 M', '0.5', '3']
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= size:
            shown = count / (1e3 if unit == "k" else size)
            return f"{shown:.3g} {unit}"
    return f"{count:,.0f}" if count == int(count) or count >= 100 else f"{count:,.1f}"


def bytes_text(count: float) -> str:
    """A number of bytes as text.

    >>> bytes_text(0), bytes_text(1536), bytes_text(3 << 30)
    ('0 B', '1.5 KiB', '3.0 GiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
