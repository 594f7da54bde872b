"""Sessions: who is logged in. Limits how fast passwords can be guessed."""

import hashlib
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

from ariane.console.people.users import User, Users
from ariane.env import Clock

MOST: Final = 1000  # sessions at a time; one more ends the oldest
FAILURES: Final = 5  # wrong passwords for a name, or from an address, in the window
WINDOW: Final = 300.0  # seconds
MOST_TRACKED: Final = 10_000


@dataclass
class Session:
    """A login. `csrf` goes into the forms that it may post."""

    name: str
    password: str
    """The stored hash at login: a changed password ends the sessions of the old one."""
    expires: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    language: str = "en"
    dark: bool = False
    outside: User | None = None
    """The user as a provider named it at the login, who has no account here."""


class Sessions:
    """The sessions of a console, in memory: a restart ends all of them."""

    def __init__(self, users: Users, clock: Clock, hours: float) -> None:
        self._users = users
        self._clock = clock
        self._seconds = hours * 3600
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def open(self, user: User, *, language: str = "en", dark: bool = False) -> str:
        """Begin a session; returns its token, of which only a hash is kept."""
        token = secrets.token_urlsafe(32)
        session = Session(
            user.name, user.password, self._clock.monotonic() + self._seconds, language=language, dark=dark
        )
        if not user.password:
            session.outside = user
        self._sessions[_key(token)] = session
        while len(self._sessions) > MOST:
            self._sessions.popitem(last=False)
        return token

    def get(self, token: str | None) -> tuple[Session, User] | None:
        """The session of a token with its user as of now; None when it ended."""
        if not token:
            return None
        session = self._sessions.get(_key(token))
        if session is None:
            return None
        user = session.outside or self._users.get(session.name)
        if user is None or user.password != session.password or self._clock.monotonic() >= session.expires:
            del self._sessions[_key(token)]
            return None
        return session, user

    def close(self, token: str) -> None:
        """End a session."""
        self._sessions.pop(_key(token), None)


class Guesses:
    """Counts wrong passwords by name and by address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, *keys: str) -> float:
        """Seconds until another password may be tried; 0 when it may be now."""
        now = self._clock.monotonic()
        waits = [0.0]
        for key in keys:
            times = self._failed.get(key, deque())
            while times and times[0] <= now - WINDOW:
                times.popleft()
            if len(times) >= FAILURES:
                waits.append(times[-FAILURES] + WINDOW - now)
        return max(waits)

    def failed(self, *keys: str) -> None:
        """Count a wrong password."""
        for key in keys:
            self._failed.setdefault(key, deque(maxlen=FAILURES)).append(self._clock.monotonic())
            self._failed.move_to_end(key)
        while len(self._failed) > MOST_TRACKED:
            self._failed.popitem(last=False)

    def succeeded(self, *keys: str) -> None:
        """Take back the guess that was counted before it turned out right; a name's earlier ones too."""
        for key in keys:
            times = self._failed.get(key)
            if times:
                times.pop()
        self._failed.pop(keys[0], None)


def _key(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
