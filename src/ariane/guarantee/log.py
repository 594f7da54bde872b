"""The message log: which messages a consumer group has received and not yet done."""

from typing import Any

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.dialects import mysql, postgresql, sqlite

from ariane.guarantee.tables import message_log

_ROW = (message_log.c.message_id == bindparam("of_id"), message_log.c.consumer_group == bindparam("of_group"))
_DELETE = delete(message_log).where(*_ROW)
_FRESH = ("broker_name", "queue_id", "queue_offset", "received")


def _upserts() -> dict[str, Any]:
    in_mysql = mysql.insert(message_log)
    in_mysql = in_mysql.on_duplicate_key_update({name: in_mysql.inserted[name] for name in _FRESH})
    in_sqlite = sqlite.insert(message_log)
    in_postgres = postgresql.insert(message_log)
    key: dict[str, Any] = {"index_elements": [message_log.c.message_id, message_log.c.consumer_group]}
    return {
        "mysql": in_mysql,
        "mariadb": in_mysql,
        "sqlite": in_sqlite.on_conflict_do_update(**key, set_={n: in_sqlite.excluded[n] for n in _FRESH}),
        "postgresql": in_postgres.on_conflict_do_update(**key, set_={n: in_postgres.excluded[n] for n in _FRESH}),
    }


_UPSERT = _upserts()


def write(
    connection: Connection, message_id: str, group: str, broker: str, queue_id: int, offset: int, now: int
) -> None:
    """Record that a message was received; a later delivery of it replaces the record."""
    connection.execute(
        _UPSERT[connection.dialect.name],
        {
            "message_id": message_id,
            "consumer_group": group,
            "broker_name": broker,
            "queue_id": queue_id,
            "queue_offset": offset,
            "received": now,
        },
    )


def remove(connection: Connection, message_id: str, group: str) -> None:
    """Forget a message that is done."""
    connection.execute(_DELETE, {"of_id": message_id, "of_group": group})


def received_since(connection: Connection, ids: list[str], moment: int) -> set[tuple[str, str]]:
    """Which of these messages are in the log, received after a moment, and by which group."""
    c = message_log.c
    rows = connection.execute(select(c.message_id, c.consumer_group).where(c.message_id.in_(ids), c.received > moment))
    return {(row.message_id, row.consumer_group) for row in rows}
