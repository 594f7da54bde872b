"""The database under a guarantee for asyncio. Apart from its sibling, for SQLAlchemy needs greenlet for it."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, event, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from ariane.errors import GuaranteeError
from ariane.guarantee.database import (
    CONNECTIONS,
    TRIES,
    check_file,
    check_kind,
    in_transaction,
    is_deadlock,
    write_ahead,
)

T = TypeVar("T")


class AsyncDatabase:
    """A database with a driver for asyncio."""

    def __init__(self, given: str | AsyncEngine) -> None:
        self._own = isinstance(given, str)
        self.engine = _open_async(given) if isinstance(given, str) else given
        check_kind(self.engine.dialect.name)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Work in the driver's greenlet."""
        for _ in range(TRIES - 1):
            try:
                return await self._once(work)
            except DBAPIError as error:
                if not is_deadlock(error):
                    raise
        return await self._once(work)

    async def _once(self, work: Callable[[Connection], T]) -> T:
        async with self.engine.connect() as connection:
            return await connection.run_sync(in_transaction, work)

    async def close(self) -> None:
        """Close the engine, if it was made here."""
        if self._own:
            await self.engine.dispose()


def _open_async(url: str) -> AsyncEngine:
    if not make_url(url).get_dialect().is_async:
        raise GuaranteeError(
            f"{make_url(url).render_as_string()} has a driver for threads: use one for asyncio (sqlite+aiosqlite, "
            "postgresql+asyncpg, mysql+aiomysql), or ariane.guarantee.Guarantee"
        )
    if make_url(url).get_backend_name() != "sqlite":
        return create_async_engine(url, pool_pre_ping=True, pool_size=CONNECTIONS)
    check_file(url)
    engine = create_async_engine(url, connect_args={"timeout": 30}, pool_size=CONNECTIONS)
    event.listen(engine.sync_engine, "connect", write_ahead)
    return engine
