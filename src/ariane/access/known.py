"""Caches the sends and pulls accepted on a connection: the next one of the same kind needs only a valid signature."""

from collections.abc import Callable
from hmac import compare_digest
from typing import Final, Protocol

from ariane.access.counters import AccessCounters
from ariane.protocol.command import Command
from ariane.protocol.fast.pulling import Pulling
from ariane.protocol.fast.sending import Sending
from ariane.protocol.signing import SigningKey
from ariane.remoting.gates import Peer

KNOWN: Final = "access.known"
"""Attribute of a connection: its KnownCaller."""
_MOST: Final = 64  # kinds of requests of one connection


class CurrentRules(Protocol):
    """The rules in force, replaced as a whole."""

    @property
    def current(self) -> object: ...


class KnownCaller:
    """An account on a connection, and the kinds of sends and pulls that its rules allow.

    All requests of a kind have the same header shape: the same code, groups, topic and access key, so they need the
    same rights. `rules` are the rules used for the decision; after a change it is taken again.
    """

    def __init__(self, rules: object, access_key: str, key: SigningKey) -> None:
        self.rules = rules
        self.access_key = access_key
        self._key = key
        self._kinds: dict[object, bool] = {}

    def passes(self, rules: object, request: Command) -> bool:
        """Whether the request is of a known kind and validly signed; False means that the full check is needed."""
        signed = request.signed
        if signed is None or rules is not self.rules or signed.access_key != self.access_key:
            return False
        kind = _kind_of(request)
        if kind is None or kind not in self._kinds:
            return False
        return compare_digest(self._key.sign(signed.text, request.body), signed.signature)

    def learn(self, request: Command) -> None:
        """Record an accepted request."""
        kind = _kind_of(request)
        if kind is not None:
            if len(self._kinds) >= _MOST:
                self._kinds.clear()
            self._kinds[kind] = True


class KnownFirst:
    """A gate before another one: admits known kinds with a valid signature, and leaves other requests to it."""

    def __init__(self, rules: CurrentRules, counters: AccessCounters, slow: Callable[[Peer, Command], None]) -> None:
        self._rules = rules
        self._counters = counters
        self._slow = slow

    def check(self, peer: Peer, request: Command) -> None:
        """Refuse the request unless it is known, or the other gate admits it."""
        known = peer.attributes.get(KNOWN)
        if isinstance(known, KnownCaller) and known.passes(self._rules.current, request):
            self._counters.allowed += 1
        else:
            self._slow(peer, request)


def _kind_of(request: Command) -> object | None:
    typed = request.typed
    if isinstance(typed, Sending):
        return typed.kind
    if isinstance(typed, Pulling):
        return typed.kind
    return None
