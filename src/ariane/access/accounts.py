"""An account, and what it may do with a topic or a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ariane import message
from ariane.access.addresses import AddressPattern
from ariane.message import DLQ_PREFIX, RETRY_PREFIX, retry_topic
from ariane.protocol.signing import SigningKey

DENY: Final = 0
PUB: Final = 1  # bits of rights
SUB: Final = 2
EITHER: Final = PUB | SUB
"""As a need: either of both rights."""

FILTER: Final = 4
"""On a group: to upload a filter that brokers run. `filterGroups` of an account gives it; no default does."""

PERMISSIONS: Final = {"DENY": DENY, "PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB}

INTERNAL_TOPICS: Final = frozenset(
    {
        message.SCHEDULE_TOPIC,
        message.HALF_TOPIC,
        message.HALF_OP_TOPIC,
        message.CHECK_MAX_TIME_TOPIC,
        message.OFFSET_MOVED_TOPIC,
    }
)
"""Topics that hold messages of other topics: default permissions do not apply to them."""
INTERNAL_PREFIX: Final = "rmq_sys_"
SHORTEST: Final = 7  # characters of an access key and of a secret key


@dataclass(frozen=True, slots=True)
class Account:
    """One account of a rules file."""

    access_key: str
    key: SigningKey = field(repr=False)
    admin: bool = False
    white: AddressPattern = field(default_factory=lambda: AddressPattern(""))
    default_topic: int = DENY
    default_group: int = DENY
    rights: Mapping[str, int] = field(default_factory=dict)
    """By topic, and by group as `%RETRY%group`."""
    filter_groups: frozenset[str] = frozenset()
    """Groups, as `%RETRY%group`, whose filters the account may upload."""

    @property
    def is_unrestricted(self) -> bool:
        """An administrator without a list of rights; one that has a list is limited to it, as in RocketMQ."""
        return self.admin and not self.rights

    def may(self, name: str, right: int) -> bool:
        """Whether the account has a right on a topic, or on a group as `%RETRY%group`."""
        if right == FILTER:
            return self.is_unrestricted or name in self.filter_groups
        return self.is_unrestricted or self.rights_on(name) & right != 0

    def rights_on(self, name: str) -> int:
        """The rights on a topic or `%RETRY%group`: its own entry, or else the default."""
        own = self.rights.get(name)
        if own is not None:
            return own
        if name.startswith(RETRY_PREFIX):
            return self.default_group
        if name.startswith(DLQ_PREFIX):  # dead letters are for the members of their group
            member = self.may(retry_topic(name.removeprefix(DLQ_PREFIX)), SUB)
            return self.default_topic if member else DENY
        if name in INTERNAL_TOPICS or name.startswith(INTERNAL_PREFIX):
            return DENY
        return self.default_topic


def right_text(right: int) -> str:
    """A right as a rules file writes it.

    >>> right_text(PUB | SUB)
    'PUB|SUB'
    """
    return {DENY: "DENY", PUB: "PUB", SUB: "SUB"}.get(right, "PUB|SUB")
