"""Which role may see which page and make which change. Both tables are checked on the server, at every call."""

from enum import IntEnum
from typing import Final

from ariane.errors import ArianeError


class Role(IntEnum):
    """What a user may do; each role may do what the ones below it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @classmethod
    def of(cls, name: str) -> "Role":
        """The role of a name; ValueError for others."""
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"there is no role {name!r}: viewer, operator and admin are known") from None


class Forbidden(ArianeError):
    """The user's role may not do this."""


PAGES: Final[dict[str, Role]] = {
    "cluster": Role.VIEWER,
    "broker": Role.VIEWER,
    "topics": Role.VIEWER,
    "topic": Role.VIEWER,
    "groups": Role.VIEWER,
    "group": Role.VIEWER,
    "messages": Role.OPERATOR,  # bodies may hold personal data
    "message": Role.OPERATOR,
    "trace": Role.VIEWER,
    "dead-letters": Role.OPERATOR,
    "producers": Role.VIEWER,
    "transactions": Role.VIEWER,
    "delays": Role.VIEWER,
    "history": Role.VIEWER,
    "alarms": Role.VIEWER,
    "access": Role.ADMIN,
    "audit": Role.ADMIN,
    "users": Role.ADMIN,
}
"""The pages, in the order of the navigation, and the lowest role that may see each."""

CHANGES: Final[dict[str, Role]] = {
    "topic.create": Role.OPERATOR,
    "topic.change": Role.OPERATOR,
    "topic.delete": Role.ADMIN,
    "message.send": Role.OPERATOR,
    "message.resend": Role.OPERATOR,
    "message.consume": Role.OPERATOR,
    "group.create": Role.OPERATOR,
    "group.delete": Role.ADMIN,
    "group.reset": Role.OPERATOR,
    "group.skip": Role.OPERATOR,
    "letters.resend": Role.OPERATOR,
    "letters.export": Role.OPERATOR,
    "transaction.end": Role.OPERATOR,
    "broker.configure": Role.ADMIN,
    "broker.drain": Role.ADMIN,
    "broker.promote": Role.ADMIN,
    "access.account": Role.ADMIN,
    "access.delete": Role.ADMIN,
    "access.white": Role.ADMIN,
    "alarms.change": Role.ADMIN,
    "alarms.test": Role.ADMIN,
    "user.add": Role.ADMIN,
    "user.role": Role.ADMIN,
    "user.reset": Role.ADMIN,
    "user.remove": Role.ADMIN,
}
"""The changes, and the lowest role that may make each."""


def may_see(role: Role, page: str) -> bool:
    """Whether a role may see a page."""
    return role >= PAGES[page]


def may_change(role: Role, change: str) -> bool:
    """Whether a role may make a change."""
    return role >= CHANGES[change]
