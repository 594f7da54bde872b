"""What a person does: list stubs, look at one, resend it or void it, with who and why on record."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, null, select, update

from ariane.errors import GuaranteeError
from ariane.guarantee import log as message_log_rows
from ariane.guarantee.stub import MAX_REASON, Stub
from ariane.guarantee.tables import StubStatus, message_decision, message_log, message_stub

_c = message_stub.c


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person did to a stub."""

    action: str
    who: str
    reason: str
    decided: int


@dataclass(frozen=True, slots=True)
class Received:
    """Where and when a group received a message that it has not done."""

    broker_name: str
    queue_id: int
    queue_offset: int
    received: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """All that is known of a message for one group."""

    stub: Stub
    received: Received | None
    decisions: tuple[Decision, ...]


def find(
    connection: Connection,
    *,
    status: StubStatus | None = None,
    attention: bool = False,
    topic: str | None = None,
    created_before: int | None = None,
    limit: int = 100,
) -> list[Stub]:
    """Stubs, oldest first. `attention`: those that wait for a person."""
    query = select(message_stub).order_by(_c.created).limit(limit)
    if attention:
        query = query.where(_c.status == StubStatus.UNCONFIRMED, _c.resend_time.is_(None), _c.attention.is_not(None))
    elif status is not None:
        query = query.where(_c.status == status)
    if topic is not None:
        query = query.where(_c.topic == topic)
    if created_before is not None:
        query = query.where(_c.created < created_before)
    return [Stub.of(row) for row in connection.execute(query)]


def inspect(connection: Connection, message_id: str, group: str | None = None) -> list[Inspection]:
    """A message for each of its groups, or for one."""
    query = select(message_stub).where(_c.message_id == message_id).order_by(_c.consumer_group)
    if group is not None:
        query = query.where(_c.consumer_group == group)
    found = []
    for row in connection.execute(query).all():
        its = (message_log.c.message_id == message_id, message_log.c.consumer_group == row.consumer_group)
        log = connection.execute(select(message_log).where(*its)).one_or_none()
        d = message_decision.c
        decisions = connection.execute(
            select(d.action, d.who, d.reason, d.decided)
            .where(d.message_id == message_id, d.consumer_group == row.consumer_group)
            .order_by(d.id)
        )
        found.append(
            Inspection(
                Stub.of(row),
                None if log is None else Received(log.broker_name, log.queue_id, log.queue_offset, log.received),
                tuple(Decision(*decision) for decision in decisions),
            )
        )
    return found


def resend(connection: Connection, message_id: str, group: str | None, who: str, reason: str, now: int) -> list[str]:
    """Have an unconfirmed message sent again at once, as if it were new; gives the groups."""
    fresh = {
        "count": 0,
        "resend_time": now,
        "attention": null(),
        "notify_time": null(),
        "notified": null(),
        "broker_name": null(),  # wherever it was: do not wait for the group to come there
        "queue_id": null(),
        "queue_offset": null(),
    }
    groups = _decide(connection, "resend", message_id, group, who, reason, now, fresh)
    for one in groups:
        message_log_rows.remove(connection, message_id, one)
    return groups


def void(connection: Connection, message_id: str, group: str | None, who: str, reason: str, now: int) -> list[str]:
    """Settle an unconfirmed message without doing it; consumers at work on it are fenced off. Gives the groups."""
    settled = {
        "status": int(StubStatus.VOID),
        "settled": now,
        "resend_time": null(),
        "notify_time": null(),
        "lease_owner": null(),
        "lease_until": null(),
    }
    groups = _decide(connection, "void", message_id, group, who, reason, now, settled)
    for one in groups:
        message_log_rows.remove(connection, message_id, one)
    return groups


def _decide(
    connection: Connection,
    action: str,
    message_id: str,
    group: str | None,
    who: str,
    reason: str,
    now: int,
    values: dict[str, object],
) -> list[str]:
    if not who.strip() or not reason.strip():
        raise GuaranteeError(f"to {action} a message, say who decides and why (who=, reason=)")
    groups = _groups(connection, message_id, group)
    changed = []
    for one in groups:
        row = (_c.message_id == message_id, _c.consumer_group == one, _c.status == StubStatus.UNCONFIRMED)
        if connection.execute(update(message_stub).where(*row).values(values)).rowcount:
            changed.append(one)
            decision = {"action": action, "who": who[:200], "reason": reason[:MAX_REASON], "decided": now}
            connection.execute(insert(message_decision), {"message_id": message_id, "consumer_group": one, **decision})
    if not changed:
        raise GuaranteeError(f"message {message_id} is settled already: ariane guarantee show {message_id}")
    return changed


def _groups(connection: Connection, message_id: str, group: str | None) -> Sequence[str]:
    query = select(_c.consumer_group).where(_c.message_id == message_id).order_by(_c.consumer_group)
    if group is not None:
        query = query.where(_c.consumer_group == group)
    groups = connection.execute(query).scalars().all()
    if not groups:
        where = f" for group {group}" if group else ""
        raise GuaranteeError(f"there is no stub of message {message_id}{where}: ariane guarantee list")
    return groups
