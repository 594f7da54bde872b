"""How a change is made: the role is checked, the change made, and both written to the audit log."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ariane.console.audit import AuditLog
from ariane.console.cluster import Cluster
from ariane.console.people.visitor import Visitor
from ariane.console.rights import Forbidden, may_change
from ariane.errors import ArianeError

T = TypeVar("T")


class Stale(ArianeError):
    """Somebody else changed it after the preview: look again."""


def still(expected: Any, now: Any) -> None:
    """Refuse a change whose preview showed another state; None was not previewed."""
    if expected is not None and expected != now:
        raise Stale(f"it was changed meanwhile, from {expected} to {now}: look at it again")


class Door:
    """Every change goes through here."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    async def _make(
        self,
        who: Visitor,
        change: str,
        cluster: Cluster | None,
        subject: str,
        work: Callable[[], Awaitable[T]],
        *,
        before: Any = None,
        after: Any = None,
    ) -> T:
        user = who.user
        name = cluster.name if cluster is not None else ""

        def note(outcome: str) -> None:
            states = {"before": before, "after": after}
            known = {when: state for when, state in states.items() if not callable(state)}
            self._audit.write(user.name, who.address, change, outcome, cluster=name, subject=subject, **known)

        self._audit.check()
        if not may_change(user.role, change):
            note("refused")
            raise Forbidden(f"{change}: the role {user.role.name.lower()} may not do this")
        try:
            if callable(before):
                before = await before()
            result = await work()
        except BaseException as error:  # also when it is cancelled: it may have been made
            note(f"failed: {error or type(error).__name__}")
            raise
        finally:
            if cluster is not None:
                cluster.forget()
        if callable(after):
            after = after(result)
        note("done")
        return result
