"""Says whether an account may do something, and by which rule."""

from __future__ import annotations

from ariane.access.accounts import PUB, Account, right_text
from ariane.access.rules import Rules
from ariane.message import DLQ_PREFIX, RETRY_PREFIX, TRACE_TOPIC


def explain(rules: Rules, access_key: str, right: int, name: str, address: bytes | None = None) -> tuple[bool, str]:
    """Whether an account has a right on a topic (or `%RETRY%group`) when it asks from an address, and why.

    The answer holds for a signed request; the reason tells when the address needs no signature.
    """
    if address is not None and rules.is_white(address):
        return True, "the address is on the global white list, which needs no account"
    account = rules.accounts.get(access_key)
    if account is None:
        return False, f"no account has the access key {access_key}"
    signed = ""
    if address is not None and account.white.matches(address):
        signed = "; no signature is needed from this address (whiteRemoteAddress)"
    if name == TRACE_TOPIC and right == PUB:
        return True, f"every account may write to the trace topic{signed}"
    if account.is_unrestricted:
        return True, f"it is an administrator without a list of rights{signed}"
    return account.may(name, right), _rule(account, name) + signed


def _rule(account: Account, name: str) -> str:
    group = name.removeprefix(RETRY_PREFIX) if name.startswith(RETRY_PREFIX) else None
    if name in account.rights:
        return f"its own entry says {group or name}={right_text(account.rights[name])}"
    if group is not None:
        return f"no entry names the group, and defaultGroupPerm is {right_text(account.default_group)}"
    if name.startswith(DLQ_PREFIX):
        need = "defaultTopicPerm and SUB on the group decide about its dead letters"
        return f"no entry names the topic: {need}, together {right_text(account.rights_on(name))}"
    if account.rights_on(name) != account.default_topic:
        return "no entry names the topic, and no default opens a topic of the broker's own"
    return f"no entry names the topic, and defaultTopicPerm is {right_text(account.default_topic)}"
