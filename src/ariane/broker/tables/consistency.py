"""Comparing the subscriptions of a group's members: RocketMQ loses messages silently where they differ."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ariane.message import RETRY_PREFIX
from ariane.protocol.bodies import SubscriptionData

Wanted = frozenset[tuple[str, str, frozenset[str]]]  # topic, type of expression, tags or expression


@dataclass(frozen=True, slots=True)
class Difference:
    """How the subscriptions of one member differ from those of most others."""

    client_id: str
    missing: tuple[str, ...]
    """Subscriptions that most others have and this member lacks."""
    extra: tuple[str, ...]
    """Subscriptions that this member has and most others lack."""

    def __str__(self) -> str:
        parts = []
        if self.missing:
            parts.append(f"does not subscribe to {', '.join(self.missing)}")
        if self.extra:
            parts.append(f"subscribes to {', '.join(self.extra)}")
        return f"{self.client_id} {' but '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """A group whose members have different subscriptions."""

    group: str
    common: tuple[str, ...]
    """The subscriptions of most members."""
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        others = "; ".join(map(str, self.differences))
        return (
            f"group {self.group}: its members subscribe to different things and will miss messages. "
            f"Most subscribe to {', '.join(self.common) or 'nothing'}; {others}"
        )


def compare(group: str, members: Mapping[str, Iterable[SubscriptionData]]) -> Inconsistency | None:
    """The differences between the members; None when all have the same subscriptions."""
    wanted = {client: _wanted(subscriptions) for client, subscriptions in sorted(members.items())}
    counted = Counter(wanted.values())
    if len(counted) < 2:
        return None
    common = max(counted, key=lambda own: (counted[own], sorted(map(_text, own))))
    differences = tuple(
        Difference(client, _texts(common - own), _texts(own - common))
        for client, own in wanted.items()
        if own != common
    )
    return Inconsistency(group, _texts(common), differences)


def _wanted(subscriptions: Iterable[SubscriptionData]) -> Wanted:
    return frozenset(
        (s.topic, s.expression_type, frozenset(s.tags_set) or frozenset((s.sub_string,)))
        for s in subscriptions
        if not s.topic.startswith(RETRY_PREFIX)
    )


def _text(item: tuple[str, str, frozenset[str]]) -> str:
    topic, kind, expression = item
    return f"{topic} ({' || '.join(sorted(expression))})" if kind == "TAG" else f"{topic} ({kind}: {min(expression)})"


def _texts(wanted: Wanted) -> tuple[str, ...]:
    return tuple(sorted(map(_text, wanted)))
