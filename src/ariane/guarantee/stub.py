"""The message stub: what was sent, how often, and whether its consumer group has done it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, case, null, or_, select, update

from ariane.guarantee.tables import StubStatus, message_stub

FOREVER = (1 << 62) - 1
MAX_REASON = 1000

_c = message_stub.c
_ROW = (_c.message_id == bindparam("of_id"), _c.consumer_group == bindparam("of_group"))
_OPEN = _c.status == StubStatus.UNCONFIRMED

# A lease is taken by one statement: of two consumers that try, one finds it free.
_CLAIM = (
    update(message_stub)
    .where(*_ROW, _OPEN, or_(_c.lease_until.is_(None), _c.lease_until <= bindparam("now")))
    .values(lease_owner=bindparam("owner"), lease_until=bindparam("until"))
)
_SETTLED = {
    "settled": bindparam("now"),
    "resend_time": null(),
    "notify_time": null(),
    "lease_owner": null(),
    "lease_until": null(),
}
_CONFIRM = update(message_stub).where(*_ROW, _OPEN).values(status=StubStatus.CONFIRMED, **_SETTLED)
# The fence: the owner is new for every delivery, so whoever lost the lease matches no row.
_CONFIRM_FENCED = _CONFIRM.where(_c.lease_owner == bindparam("owner"))
_GIVE_BACK = (
    update(message_stub)
    .where(*_ROW, _OPEN, _c.lease_owner == bindparam("owner"))
    .values(lease_owner=null(), lease_until=null(), last_error=bindparam("error"))
)
_MARK = (
    update(message_stub)
    .where(*_ROW, _OPEN, _c.attention.is_(None))
    .values(attention=bindparam("why"), resend_time=null(), notify_time=bindparam("now"))
)
_SENT_VALUES = {
    "count": _c.count + 1,
    "broker_name": bindparam("broker"),
    "queue_id": bindparam("queue"),
    "queue_offset": bindparam("at"),
    "last_error": null(),
    # A consumer may have been quicker than this record.
    "resend_time": case((or_(~_OPEN, _c.attention.is_not(None)), null()), else_=bindparam("due", type_=BigInteger)),
}
_SENT = update(message_stub).where(_c.message_id == bindparam("of_id")).values(_SENT_VALUES)
_SENT_TO_GROUP = _SENT.where(_c.consumer_group == bindparam("of_group"))
_POSTPONE = update(message_stub).where(*_ROW, _OPEN, _c.attention.is_(None)).values(resend_time=bindparam("due"))
_NOT_SENT = _POSTPONE.values(last_error=bindparam("error"))
_STATE = select(_c.status, _c.lease_owner, _c.lease_until).where(*_ROW)


@dataclass(frozen=True, slots=True)
class Stub:
    """A stub as people look at it."""

    message_id: str
    consumer_group: str
    topic: str
    tag: str | None
    keys: str | None
    properties: str | None
    hash_key: str | None
    content: bytes
    count: int
    status: StubStatus
    broker_name: str | None
    queue_id: int | None
    queue_offset: int | None
    resend_time: int | None
    created: int
    settled: int | None
    lease_owner: str | None
    lease_until: int | None
    attention: str | None
    notified: int | None
    last_error: str | None

    @classmethod
    def of(cls, row: Any) -> "Stub":
        """A stub from a row of its table."""
        values = {name: getattr(row, name) for name in cls.__slots__}
        return cls(**values | {"status": StubStatus(row.status), "content": bytes(row.content)})


@dataclass(frozen=True, slots=True)
class State:
    """How far a message is."""

    status: StubStatus
    lease_until: int | None


@dataclass(frozen=True, slots=True)
class Sent:
    """A send that a broker acknowledged; `group` is None for the first send, which is for all groups."""

    message_id: str
    group: str | None
    broker_name: str
    queue_id: int
    queue_offset: int
    due: int


def state(connection: Connection, message_id: str, group: str) -> State | None:
    """Read a stub's state; None when there is none for this group."""
    row = connection.execute(_STATE, {"of_id": message_id, "of_group": group}).one_or_none()
    return None if row is None else State(StubStatus(row.status), row.lease_until)


def claim(connection: Connection, message_id: str, group: str, owner: str, now: int, until: int) -> bool:
    """Take the lease; False when the stub is settled, missing, or leased to another."""
    values = {"of_id": message_id, "of_group": group, "owner": owner, "now": now, "until": until}
    return connection.execute(_CLAIM, values).rowcount == 1


def confirm(connection: Connection, message_id: str, group: str, owner: str | None, now: int) -> bool:
    """Confirm, if still unconfirmed and leased to the owner (without owner: to anybody)."""
    values: dict[str, Any] = {"of_id": message_id, "of_group": group, "now": now}
    if owner is None:
        return connection.execute(_CONFIRM, values).rowcount == 1
    return connection.execute(_CONFIRM_FENCED, values | {"owner": owner}).rowcount == 1


def give_back(connection: Connection, message_id: str, group: str, owner: str, error: str) -> None:
    """Return the lease after a failure."""
    values = {"of_id": message_id, "of_group": group, "owner": owner, "error": error[:MAX_REASON]}
    connection.execute(_GIVE_BACK, values)


def mark(connection: Connection, message_id: str, group: str, why: str, now: int) -> bool:
    """Leave the message to a person, once: it is not resent any more, and the person is notified."""
    values = {"of_id": message_id, "of_group": group, "why": why[:MAX_REASON], "now": now}
    return connection.execute(_MARK, values).rowcount == 1


def record_sent(connection: Connection, sends: Iterable[Sent]) -> None:
    """Count sends; rows are taken in the order of their ids, so that two recorders cannot wait for each other."""
    to_all: list[dict[str, Any]] = []
    to_group: list[dict[str, Any]] = []
    for send in sorted(sends, key=lambda send: (send.message_id, send.group or "")):
        values = {
            "of_id": send.message_id,
            "broker": send.broker_name,
            "queue": send.queue_id,
            "at": send.queue_offset,
            "due": send.due,
        }
        if send.group is None:
            to_all.append(values)
        else:
            to_group.append(values | {"of_group": send.group})
    if to_all:
        connection.execute(_SENT, to_all)
    if to_group:
        connection.execute(_SENT_TO_GROUP, to_group)


def postpone(connection: Connection, message_id: str, group: str, due: int, error: str | None = None) -> None:
    """Look at a stub again later; `error` says why it could not be sent."""
    values: dict[str, Any] = {"of_id": message_id, "of_group": group, "due": due}
    if error is None:
        connection.execute(_POSTPONE, values)
    else:
        connection.execute(_NOT_SENT, values | {"error": error[:MAX_REASON]})
