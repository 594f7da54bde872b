"""The database under a guarantee: which kinds it may be, and how work runs in a transaction of its own."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from ariane.errors import GuaranteeError

T = TypeVar("T")
KINDS = ("sqlite", "postgresql", "mysql", "mariadb")
TRIES = 5
CONNECTIONS = 32  # kept open when they were needed once: more than a consumer has threads by default
_DEADLOCKS = ("40001", "40P01")  # SQLSTATE: serialization failure, deadlock
_DEADLOCK_NUMBERS = (1213, 1205, 1020)  # MySQL: deadlock, lock wait time-out, record changed


class Database(Protocol):
    """Runs work in transactions, for coroutines."""

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Begin, work, commit. Work that the database broke off because of a deadlock runs again."""
        ...


class ThreadDatabase:
    """A database with a driver for threads."""

    def __init__(self, given: str | Engine) -> None:
        self._own = isinstance(given, str)
        self.engine = _open(given) if isinstance(given, str) else given
        check_kind(self.engine.dialect.name)

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Like `run`, for the calling thread."""
        for _ in range(TRIES - 1):
            try:
                return self._once(work)
            except DBAPIError as error:
                if not is_deadlock(error):
                    raise
        return self._once(work)

    def _once(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            return in_transaction(connection, work)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Work in a thread."""
        return await asyncio.to_thread(self.transact, work)

    def dispose(self) -> None:
        """Close the engine, if it was made here."""
        if self._own:
            self.engine.dispose()


def in_transaction(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Begin, work, commit."""
    with _quiet(connection).begin():
        begin_write(connection)
        return work(connection)


def _quiet(connection: Connection) -> Connection:
    """MySQL's default level locks gaps between rows, which makes strangers wait for each other."""
    if connection.dialect.name in ("mysql", "mariadb"):
        return connection.execution_options(isolation_level="READ COMMITTED")
    return connection


_TAKE_WRITE_LOCK = text("UPDATE message_stub SET count = count WHERE 1 = 0")


def begin_write(connection: Connection) -> None:
    """SQLite has one writer: be it from the start, for a reader that becomes one later may be refused."""
    if connection.dialect.name == "sqlite":
        connection.execute(_TAKE_WRITE_LOCK)


def is_deadlock(error: DBAPIError) -> bool:
    """Whether the same work may succeed at once when it is tried again."""
    original = error.orig
    state = getattr(original, "sqlstate", None)
    arguments: tuple[object, ...] = getattr(original, "args", ())
    return state in _DEADLOCKS or any(number in arguments[:1] for number in _DEADLOCK_NUMBERS)


def check_kind(kind: str) -> None:
    """Raise a GuaranteeError for a database that was never tried."""
    if kind not in KINDS:
        raise GuaranteeError(f"a guarantee needs SQLite, PostgreSQL, MySQL or MariaDB, not {kind}")


def check_file(url: str) -> None:
    """Refuse SQLite in memory, of which every connection has a database of its own."""
    if make_url(url).database in (None, "", ":memory:"):
        raise GuaranteeError("stubs in memory do not survive what they are for: name a file, sqlite:///shop.db")


def _open(url: str) -> Engine:
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True, pool_size=CONNECTIONS)
    check_file(url)
    engine = create_engine(url, connect_args={"timeout": 30}, poolclass=QueuePool, pool_size=CONNECTIONS)
    event.listen(engine, "connect", write_ahead)
    return engine


def write_ahead(connection: Any, _: object) -> None:
    """Let readers go on beside the writer."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()
