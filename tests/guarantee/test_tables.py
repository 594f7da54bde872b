"""The tables: migrations, plans of the queries at a large number of stubs, retention."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, func, insert, inspect, select, text
from sqlalchemy.sql import Select

from ariane.env import ManualClock
from ariane.guarantee import Guarantee, StubStatus, metadata
from ariane.guarantee.migrations import VERSION_TABLE, migrate
from ariane.guarantee.resend import DUE, TO_NOTIFY
from ariane.guarantee.retention import OLD_LOGS, OLD_STUBS
from ariane.guarantee.tables import message_decision, message_log, message_stub
from tests.guarantee.conftest import Make, Site
from tests.guarantee.deliveries import delivery

STUBS = 20_000
OPEN = 200  # of them unconfirmed, as many due and as many in the future
DAY = 24 * 3600.0


def test_the_migrations_make_the_tables_that_the_code_knows(make: Make) -> None:
    guarantee = make()
    guarantee.migrate()  # a second time changes nothing
    with guarantee.engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": VERSION_TABLE,
                "include_object": lambda item, name, kind, *_: kind != "table" or name in metadata.tables,
                "compare_type": True,
            },
        )
        assert compare_metadata(context, metadata) == []
        assert connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one() == "0001"


def test_a_migration_keeps_what_is_there_and_can_be_taken_back(tmp_path: Any) -> None:
    from alembic import command
    from alembic.config import Config

    from ariane.guarantee import migrations

    engine = create_engine(f"sqlite:///{tmp_path}/own.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num TEXT)"))  # the application's own
        migrate(connection)
        config = Config()
        config.set_main_option("script_location", str(migrations.__path__[0]))
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        assert set(inspect(connection).get_table_names()) == {"alembic_version", VERSION_TABLE}
    engine.dispose()


@pytest.fixture
def large(make: Make) -> Iterator[Connection]:
    """Many stubs, most of them confirmed, and statistics about them."""
    guarantee = make()
    rows = [
        {
            "message_id": f"{number:09}",
            "consumer_group": "billing",
            "topic": "orders",
            "content": b"",
            "count": 1,
            "status": int(StubStatus.UNCONFIRMED if number < 2 * OPEN else StubStatus.CONFIRMED),
            "resend_time": number * 1000 if number < 2 * OPEN else None,
            "notify_time": number if number < 10 else None,
            "created": number,
        }
        for number in range(STUBS)
    ]
    logs = [
        {
            "message_id": row["message_id"],
            "consumer_group": "billing",
            "broker_name": "a",
            "queue_id": 0,
            "queue_offset": 0,
            "received": number,
        }
        for number, row in enumerate(rows[: STUBS // 4])
    ]
    with guarantee.engine.begin() as connection:
        connection.execute(insert(message_stub), rows)
        connection.execute(insert(message_log), logs)
    kind = guarantee.engine.dialect.name
    analyze = "ANALYZE TABLE message_stub, message_log" if kind in ("mysql", "mariadb") else "ANALYZE"
    with guarantee.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(analyze))
    with guarantee.engine.begin() as connection:
        yield connection


def plan_of(connection: Connection, query: Select[Any], values: dict[str, Any]) -> str:
    """What the database says it will do."""
    bound = query.params(**values).compile(
        connection.engine, compile_kwargs={"literal_binds": True, "render_postcompile": True}
    )
    explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN "}.get(
        connection.dialect.name, "EXPLAIN FORMAT=JSON "
    )
    rows = connection.exec_driver_sql(explain + str(bound)).all()
    return "\n".join(str(row[-1]) for row in rows)


QUERIES: list[tuple[Select[Any], dict[str, Any], str]] = [
    (DUE, {"now": OPEN * 1000, "most": 100}, "ix_message_stub_due"),
    (TO_NOTIFY, {"now": 5}, "ix_message_stub_notify"),
    (OLD_STUBS, {"status": 1, "before": 1000, "most": 500}, "ix_message_stub_age"),
    (OLD_LOGS, {"before": 100, "last": 20, "last_id": "000000020", "most": 50}, "ix_message_log_received"),
]
WHOLE = ["Seq Scan", "SCAN message", '"access_type": "ALL"', "Sort", "TEMP B-TREE", "filesort"]


def test_no_query_of_the_background_reads_or_sorts_the_whole_table(large: Connection) -> None:
    for query, values, index in QUERIES:
        plan = plan_of(large, query, values)
        assert index in plan
        assert [word for word in WHOLE if word in plan] == [], plan
    _reads_only_what_it_claims(large)


def _reads_only_what_it_claims(large: Connection) -> None:
    rows = large.execute(DUE, {"now": OPEN * 1000, "most": 50}).all()
    assert [row.message_id for row in rows] == [f"{number:09}" for number in range(50)]
    if large.dialect.name == "postgresql":
        bound = str(
            DUE.params(now=OPEN * 1000, most=50).compile(
                large.engine, compile_kwargs={"literal_binds": True, "render_postcompile": True}
            )
        )
        answer = large.exec_driver_sql("EXPLAIN (ANALYZE, FORMAT JSON) " + bound).scalar_one()
        plan = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
        while "Plans" in plan:
            plan = plan["Plans"][0]
        assert plan["Node Type"] == "Index Scan"
        assert plan["Actual Rows"] == 50


def test_retention_deletes_settled_stubs_and_what_crashes_left_in_small_batches(make: Make) -> None:
    clock = ManualClock()

    class Impatient(ManualClock):
        """Moves with the other, and its sleeps take no time."""

        async def sleep(self, seconds: float) -> None:
            pauses.append(seconds)

        def now_ms(self) -> int:
            return clock.now_ms()

    pauses: list[float] = []
    guarantee: Guarantee = make(clock=Impatient(), retain=7 * DAY, retain_batch=10)
    from sqlalchemy.orm import Session

    with Session(guarantee.engine) as session, session.begin():
        old = [guarantee.stage(session, "orders", b"") for _ in range(35)]
        void = guarantee.stage(session, "orders", b"")
        unfinished = guarantee.stage(session, "orders", b"")
    for message_id in old:
        guarantee.process(delivery(message_id), lambda message: None)
    guarantee.void(void, who="ann", reason="test")
    with guarantee.engine.begin() as connection:  # a duplicate that came late, and crashed
        row = {"consumer_group": "billing", "broker_name": "a", "queue_id": 0, "queue_offset": 0}
        for message_id in (old[0], "unknown", unfinished):
            connection.execute(insert(message_log), row | {"message_id": message_id, "received": clock.now_ms()})
    assert guarantee.sweep().stubs == 0
    clock.advance(8 * DAY)
    with Session(guarantee.engine) as session, session.begin():
        young = guarantee.stage(session, "orders", b"")
    guarantee.process(delivery(young), lambda message: None)
    swept = guarantee.sweep()
    assert (swept.stubs, swept.logs) == (36, 2)
    assert len(pauses) >= 5
    assert {stub.message_id for stub in guarantee.stubs()} == {unfinished, young}
    with guarantee.engine.connect() as connection:
        assert connection.execute(select(message_log.c.message_id)).scalars().all() == [unfinished]
        assert connection.execute(select(func.count()).select_from(message_decision)).scalar_one() == 0


async def test_the_tables_are_made_and_swept_by_coroutines_too(site: Site) -> None:
    from ariane.guarantee import aio

    guarantee = aio.Guarantee(site.async_url)
    await guarantee.migrate()
    assert (await guarantee.sweep()).stubs == 0
    await guarantee.close()
