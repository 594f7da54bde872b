"""Senders and pullers of a connection that were let in: the next such request needs a good signature alone."""

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

    All requests of a kind come from one shape of header: they have the same code, groups, topic and access key, so
    that they demand the same rights. `rules` are those by which it was decided; others decide anew.
    """

    def __init__(self, rules: object, access_key: str, key: SigningKey) -> None:
        self.rules = rules
        self.access_key = access_key
        self._key = key
        self._kinds: dict[object, bool] = {}

    def passes(self, rules: object, request: Command) -> bool:
        """Whether the request is of a known kind and well signed; False says nothing about others."""
        signed = request.signed
        if signed is None or rules is not self.rules or signed.access_key != self.access_key:
            return False
        kind = _kind_of(request)
        if kind is None or kind not in self._kinds:
            return False
        return compare_digest(self._key.sign(signed.text, request.body), signed.signature)

    def learn(self, request: Command) -> None:
        """Note that a request was let in."""
        kind = _kind_of(request)
        if kind is not None:
            if len(self._kinds) >= _MOST:
                self._kinds.clear()
            self._kinds[kind] = True


class KnownFirst:
    """A gate before another one: a known caller with a good signature passes, any other request is for that one."""

    def __init__(self, rules: CurrentRules, counters: AccessCounters, slow: Callable[[Peer, Command], None]) -> None:
        self._rules = rules
        self._counters = counters
        self._slow = slow

    def check(self, peer: Peer, request: Command) -> None:
        """Refuse the request unless it is known, or the other gate lets it in."""
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
