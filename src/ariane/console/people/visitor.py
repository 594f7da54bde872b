"""The user of a page: looked up by session at every step, so that a logout or a changed role takes effect at once."""

from dataclasses import dataclass

from ariane.console.people.sessions import Session, Sessions
from ariane.console.people.users import User
from ariane.console.rights import Role, may_change, may_see
from ariane.errors import ArianeError


class SessionEnded(ArianeError):
    """The session is over: log in again."""


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page, and from where."""

    sessions: Sessions
    token: str
    address: str

    def _found(self) -> tuple[Session, User]:
        found = self.sessions.get(self.token)
        if found is None or found[1].one_time:
            raise SessionEnded("the session has ended: log in again")
        return found

    @property
    def session(self) -> Session:
        """The session; SessionEnded when it is over."""
        return self._found()[0]

    @property
    def user(self) -> User:
        """The user as of now; SessionEnded when the session is over."""
        return self._found()[1]

    @property
    def role(self) -> Role:
        """The role as of now."""
        return self.user.role

    def may(self, change: str) -> bool:
        """Whether to offer a change; `Changes` checks it again when it is made."""
        return may_change(self.role, change)

    def may_look(self, page: str) -> bool:
        """Whether the user may see a page now; SessionEnded when the session is over."""
        return may_see(self.role, page)
