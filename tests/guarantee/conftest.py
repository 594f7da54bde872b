"""Databases of every kind behind one fixture, a cache, and a cluster: the same assertions hold against each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from ariane.guarantee import Guarantee, metadata
from ariane.testing.cluster import Cluster
from tests.guarantee.bank import bank
from tests.guarantee.servers import MariaDB, Postgres, Redis, ServerMissing, or_skip
from tests.peers.fixtures import QUICK


@dataclass(frozen=True)
class Site:
    """A migrated, empty database of some kind."""

    kind: str
    url: str
    async_url: str


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The session's PostgreSQL."""
    try:
        server = Postgres()
    except ServerMissing as error:
        or_skip(error)
    with server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """The session's MariaDB."""
    try:
        server = MariaDB()
    except ServerMissing as error:
        or_skip(error)
    with server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    """The session's Redis."""
    try:
        server = Redis()
    except ServerMissing as error:
        or_skip(error)
    with server:
        yield server


def database_urls(kind: str, server: Postgres | MariaDB, name: str) -> tuple[str, str]:
    """URLs for threads and for asyncio."""
    sync, other = ("psycopg", "asyncpg") if kind == "postgresql" else ("pymysql", "aiomysql")
    place = server.server.rpartition("/")[0]
    return f"{kind}+{sync}://{place}/{name}", f"{kind}+{other}://{place}/{name}"


def create_database(kind: str, server: Postgres | MariaDB, name: str) -> None:
    """Create an empty database."""
    maker = create_engine(
        database_urls(kind, server, server.server.rpartition("/")[2])[0], isolation_level="AUTOCOMMIT"
    )
    with maker.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    maker.dispose()


@pytest.fixture(scope="session")
def _postgres_site(postgres: Postgres) -> Site:
    create_database("postgresql", postgres, "shop")
    return _migrated(Site("postgresql", *database_urls("postgresql", postgres, "shop")))


@pytest.fixture(scope="session")
def _mariadb_site(mariadb: MariaDB) -> Site:
    create_database("mariadb", mariadb, "shop")
    return _migrated(Site("mariadb", *database_urls("mariadb", mariadb, "shop")))


def _migrated(site: Site) -> Site:
    guarantee = Guarantee(site.url)
    guarantee.migrate()
    bank.create_all(guarantee.engine)
    guarantee.close()
    return site


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """An empty database of each kind in turn."""
    kind = request.param
    if kind == "sqlite":
        return _migrated(Site(kind, f"sqlite:///{tmp_path}/shop.db", f"sqlite+aiosqlite:///{tmp_path}/shop.db"))
    found: Site = request.getfixturevalue("_postgres_site" if kind == "postgresql" else "_mariadb_site")
    engine = create_engine(found.url)
    with engine.begin() as connection:
        for table in (*metadata.sorted_tables, *bank.sorted_tables):
            connection.execute(table.delete())
    engine.dispose()
    return found


@pytest.fixture(params=["no cache", "redis"])
def cache(request: pytest.FixtureRequest) -> str | None:
    """Without a cache, and with one."""
    if request.param == "no cache":
        return None
    server: Redis = request.getfixturevalue("redis")
    return server.url


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The session's cluster: shared, so use names of your own."""
    with Cluster(tmp_path_factory.mktemp("guarantee"), config=QUICK) as running:
        yield running


Make = Callable[..., Guarantee]


@pytest.fixture
def make(site: Site) -> Iterator[Make]:
    """Makes guarantees over the database, closed at the end."""
    with ExitStack() as stack:

        def made(**options: Any) -> Guarantee:
            guarantee = Guarantee(site.url, **{"consumers": {"orders": "billing"}, **options})
            stack.callback(guarantee.close)
            return guarantee

        yield made
