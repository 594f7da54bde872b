"""Whether the members of a group want the same: RocketMQ needs it so, and loses messages silently when it is not."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ariane.message import RETRY_PREFIX
from ariane.protocol.bodies import SubscriptionData

Wish = frozenset[tuple[str, str, frozenset[str]]]  # topic, kind of expression, tags or expression


@dataclass(frozen=True, slots=True)
class Difference:
    """How one member differs from most of its group."""

    client_id: str
    missing: tuple[str, ...]
    """What most others subscribe to and this one does not."""
    extra: tuple[str, ...]
    """What this one subscribes to and most others do not."""

    def __str__(self) -> str:
        parts = []
        if self.missing:
            parts.append(f"does not subscribe to {', '.join(self.missing)}")
        if self.extra:
            parts.append(f"subscribes to {', '.join(self.extra)}")
        return f"{self.client_id} {' but '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """A group that disagrees with itself."""

    group: str
    common: tuple[str, ...]
    """What most members subscribe to."""
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        others = "; ".join(map(str, self.differences))
        return (
            f"group {self.group}: its members subscribe to different things and will miss messages. "
            f"Most subscribe to {', '.join(self.common) or 'nothing'}; {others}"
        )


def compare(group: str, members: Mapping[str, Iterable[SubscriptionData]]) -> Inconsistency | None:
    """None when all members want the same."""
    wishes = {client: _wish(subscriptions) for client, subscriptions in sorted(members.items())}
    counted = Counter(wishes.values())
    if len(counted) < 2:
        return None
    common = max(counted, key=lambda wish: (counted[wish], sorted(map(_text, wish))))
    differences = tuple(
        Difference(client, _texts(common - wish), _texts(wish - common))
        for client, wish in wishes.items()
        if wish != common
    )
    return Inconsistency(group, _texts(common), differences)


def _wish(subscriptions: Iterable[SubscriptionData]) -> Wish:
    return frozenset(
        (s.topic, s.expression_type, frozenset(s.tags_set) or frozenset((s.sub_string,)))
        for s in subscriptions
        if not s.topic.startswith(RETRY_PREFIX)
    )


def _text(item: tuple[str, str, frozenset[str]]) -> str:
    topic, kind, expression = item
    return f"{topic} ({' || '.join(sorted(expression))})" if kind == "TAG" else f"{topic} ({kind}: {min(expression)})"


def _texts(wish: Wish) -> tuple[str, ...]:
    return tuple(sorted(map(_text, wish)))
