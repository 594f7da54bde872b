"""Decides about each request before its handler: by the table of rules, the caller's account and its address."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest
from typing import Final, NoReturn

from ariane.access.accounts import FILTER, PUB, Account, right_text
from ariane.access.known import KNOWN, KnownCaller
from ariane.access.replay import ReplayGuard
from ariane.access.rules import LiveRules, Rules
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.message import RETRY_PREFIX, TRACE_TOPIC
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import BINARY, Command
from ariane.protocol.signing import ACCESS_KEY, SIGNATURE, signed_values
from ariane.remoting import ACCOUNT, Peer
from ariane.remoting.limited_log import LimitedLog, clip

log = logging.getLogger("ariane.access")

PREFIX: Final = "org.apache.rocketmq.acl.common.AclException: "
"""Begins every refusal, as in RocketMQ: clients recognise an access denial by it."""
_WHITE: Final = "access.white"  # attribute of a connection: whether its address is white-listed, and the rules used


Need = tuple[str, int]
"""A topic, or a group as `%RETRY%group`, and the right on it."""


class Level(Enum):
    """The kind of callers that may send a request."""

    OPEN = "everybody"
    ACCOUNT = "every account"
    SIGNED = "every account; the global white list does not count"
    TRUSTED = "administrators, and addresses of the global white list"
    ADMIN = "administrators"


_NEVER_WHITE: Final = (Level.ADMIN, Level.SIGNED)


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of a request code."""

    level: Level
    text: str = ""
    """For the documentation: the rights needed."""
    needs: Callable[[Command], Iterable[Need]] | None = None
    """The rights that this request demands; ResponseError or ProtocolError for one that is malformed."""


class AccessGate:
    """Admits a request, or raises ResponseError with RocketMQ's text. A code without a rule is always refused."""

    def __init__(
        self,
        rules: LiveRules,
        table: Mapping[int, Rule],
        clock: Clock,
        *,
        trusted: frozenset[str] = frozenset(),
        replay: ReplayGuard | None = None,
    ) -> None:
        self._rules = rules
        self._table = table
        self._trusted = trusted  # access keys that count as trusted callers
        self._replay = replay
        self._counters = rules.counters
        self._log = LimitedLog(log, clock)

    def check(self, peer: Peer, request: Command) -> None:
        """Refuse the request unless its rule allows it."""
        rules = self._rules.current
        rule = self._table.get(request.code)
        if rule is not None and rule.level is Level.OPEN:
            return
        if self._is_white(peer, rules) and (rule is None or rule.level not in _NEVER_WHITE):
            account = None
        else:
            account = self._authenticate(peer, request, rules)
        if rule is None:
            self._counters.refused["unknown_code"] += 1
            raise ResponseError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")
        if account is not None:
            self._authorize(peer, request, rule, account)
            peer.attributes[ACCOUNT] = account.access_key
            if request.signed is not None and self._replay is None:
                self._remember(peer, request, rules, account)
        self._counters.allowed += 1

    def check_again(self, peer: Peer, request: Command) -> None:
        """Refuse a request that was let in before, and waits, if the rules of now do not allow it."""
        rules = self._rules.current
        rule = self._table.get(request.code)
        if rule is None or rule.level is Level.OPEN or (rule.level not in _NEVER_WHITE and self._is_white(peer, rules)):
            return
        self._authorize(peer, request, rule, self._authenticate(peer, request, rules, again=True))

    def _remember(self, peer: Peer, request: Command, rules: Rules, account: Account) -> None:
        """Cache the decision: further sends or pulls of this kind need only a valid signature."""
        known: KnownCaller | None = peer.attributes.get(KNOWN)
        if known is None or known.rules is not rules or known.access_key != account.access_key:
            known = peer.attributes[KNOWN] = KnownCaller(rules, account.access_key, account.key)
        known.learn(request)

    def _is_white(self, peer: Peer, rules: Rules) -> bool:
        """Whether the peer is on the global white list, computed once per connection and version of the rules."""
        if not rules.white:
            return False
        known: tuple[Rules, bool] | None = peer.attributes.get(_WHITE)
        if known is None or known[0] is not rules:
            known = peer.attributes[_WHITE] = (rules, rules.is_white(peer.peer_host[:-4]))
        return known[1]

    def _authenticate(self, peer: Peer, request: Command, rules: Rules, *, again: bool = False) -> Account:
        fields = request.wire_fields()
        access_key = fields.get(ACCESS_KEY)
        if access_key is None:
            self._refuse(peer, request, "no_key", "No accessKey is configured")
        account = rules.accounts.get(access_key)
        if account is None:
            self._refuse(peer, request, "unknown_key", f"No acl config for {access_key}")
        if account.white.matches(peer.peer_host[:-4]):
            return account
        if not _is_signed(account, request, fields):
            self._refuse(peer, request, "signature", f"Check signature failed for accessKey={access_key}")
        if self._replay is not None and not again:
            reason = self._replay.refusal(access_key, request, fields)
            if reason is not None:
                self._refuse(peer, request, "replay", f"Check signature failed for accessKey={access_key}: {reason}")
        return account

    def _authorize(self, peer: Peer, request: Command, rule: Rule, account: Account) -> None:
        if rule.level in (Level.TRUSTED, Level.ADMIN) and not account.admin:
            key = account.access_key
            if rule.level is not Level.TRUSTED or key not in self._trusted:
                text = f"Need admin permission for request code={request.code}, but accessKey={key} is not"
                self._refuse(peer, request, "admin", text)
        if rule.needs is None:
            return
        for name, right in rule.needs(request):
            if not account.may(name, right) and not (name == TRACE_TOPIC and right == PUB):
                self._refuse(peer, request, "permission", _no_permission(account, name, right))

    def _refuse(self, peer: Peer, request: Command, reason: str, text: str) -> NoReturn:
        self._counters.refused[reason] += 1
        self._log.warning("request %d of %s is refused: %s", request.code, peer.peer, ascii(clip(text)))
        raise ResponseError(ResponseCode.SYSTEM_ERROR, PREFIX + text)


def _is_signed(account: Account, request: Command, fields: dict[str, str]) -> bool:
    """Whether the signature is that of the account's secret key; compared in constant time."""
    try:
        given = fields.get(SIGNATURE, "").encode()
        if compare_digest(account.key.sign(signed_values(fields), request.body), given):
            return True
        if request.serialization == BINARY and "" in fields.values():
            # Apache's binary decoder reads an empty value as null, and the signature then covers the text `null`.
            nulls = {name: value or "null" for name, value in fields.items()}
            return compare_digest(account.key.sign(signed_values(nulls), request.body), given)
    except UnicodeEncodeError:
        pass
    return False


def _no_permission(account: Account, name: str, right: int) -> str:
    what, own, perms = "topic", name, "topicPerms"
    if name.startswith(RETRY_PREFIX):
        what, own, perms = "group", name.removeprefix(RETRY_PREFIX), "groupPerms"
    key = account.access_key
    if right == FILTER:
        return f"No permission to upload a filter of group:{own} (filterGroups of {key} needs {own})"
    return f"No default permission for {what}:{own} ({perms} of {key} needs {own}={right_text(right)})"
