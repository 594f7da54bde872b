"""Retention: delete old rows in small batches, so that no transaction is long and no table is locked."""

from dataclasses import dataclass

from sqlalchemy import Connection, Integer, bindparam, delete, or_, select

from ariane.env import Clock
from ariane.guarantee.database import Database
from ariane.guarantee.options import GuaranteeOptions
from ariane.guarantee.tables import StubStatus, message_decision, message_log, message_stub

PAUSE = 0.05
SWEEP_INTERVAL = 3600.0

_s, _l = message_stub.c, message_log.c
OLD_STUBS = (
    select(_s.message_id, _s.consumer_group)
    .where(_s.status == bindparam("status"), _s.created < bindparam("before"))
    .order_by(_s.created)
    .limit(bindparam("most", type_=Integer))
)
# Walks the index once: rows of stubs that are still open stay, and must not be read again for every batch.
OLD_LOGS = (
    select(_l.message_id, _l.consumer_group, _l.received)
    .where(
        _l.received < bindparam("before"),
        _l.received >= bindparam("last"),
        or_(_l.received > bindparam("last"), _l.message_id > bindparam("last_id")),
    )
    .order_by(_l.received, _l.message_id)
    .limit(bindparam("most", type_=Integer))
)
_DELETE_STUB = delete(message_stub).where(
    _s.message_id == bindparam("of_id"), _s.consumer_group == bindparam("of_group")
)
_DELETE_LOG = delete(message_log).where(_l.message_id == bindparam("of_id"), _l.consumer_group == bindparam("of_group"))
_DELETE_DECISIONS = delete(message_decision).where(
    message_decision.c.message_id == bindparam("of_id"), message_decision.c.consumer_group == bindparam("of_group")
)


@dataclass(frozen=True, slots=True)
class Swept:
    """Rows that a sweep deleted."""

    stubs: int
    logs: int


async def sweep(database: Database, options: GuaranteeOptions, clock: Clock) -> Swept:
    """Delete stubs settled and created before the time of retention, and logs that belong to no open stub."""
    before = clock.now_ms() - int(options.retain * 1000)
    most = options.retain_batch
    stubs = logs = 0
    for status in (StubStatus.CONFIRMED, StubStatus.VOID):
        while count := await database.run(lambda c, status=status: _delete_stubs(c, status, before, most)):  # type: ignore[misc]
            stubs += count
            await clock.sleep(PAUSE)
            if count < most:
                break
    place: tuple[int, str] | None = (0, "")
    while place is not None:
        count, place = await database.run(lambda c, place=place: _delete_logs(c, before, place, most))  # type: ignore[misc]
        logs += count
        await clock.sleep(PAUSE)
    return Swept(stubs, logs)


def _delete_stubs(connection: Connection, status: StubStatus, before: int, most: int) -> int:
    rows = connection.execute(OLD_STUBS, {"status": int(status), "before": before, "most": most}).all()
    keys = [{"of_id": row.message_id, "of_group": row.consumer_group} for row in sorted(rows)]
    if keys:
        connection.execute(_DELETE_DECISIONS, keys)
        connection.execute(_DELETE_STUB, keys)
    return len(keys)


def _delete_logs(
    connection: Connection, before: int, place: tuple[int, str], most: int
) -> tuple[int, tuple[int, str] | None]:
    """Delete logs of settled or unknown stubs, after a place; gives their number, and the place to go on from.

    A log is deleted with the confirmation; but a duplicate may have written it again, and crashed.
    """
    last, last_id = place
    rows = connection.execute(OLD_LOGS, {"before": before, "last": last, "last_id": last_id, "most": most}).all()
    ids = [row.message_id for row in rows]
    open_stubs = connection.execute(
        select(_s.message_id, _s.consumer_group).where(_s.message_id.in_(ids), _s.status == StubStatus.UNCONFIRMED)
    )
    keep = {(row.message_id, row.consumer_group) for row in open_stubs}
    keys = [
        {"of_id": row.message_id, "of_group": row.consumer_group}
        for row in sorted(rows)
        if (row.message_id, row.consumer_group) not in keep
    ]
    if keys:
        connection.execute(_DELETE_LOG, keys)
    return len(keys), None if len(rows) < most else (rows[-1].received, rows[-1].message_id)
