"""What a guarantee can be told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Self, TypedDict

from ariane.errors import GuaranteeError
from ariane.guarantee.notify import Notifier
from ariane.message import is_valid_name

HOUR = 3600.0
DAY = 24 * HOUR


class Idempotence(Enum):
    """What a consumer does with a message that another consumer is working on."""

    LEASE = "lease"
    """The token is a lease: try again later, so that nothing is lost when the other consumer dies."""
    DOCUMENTS = "documents"
    """RocketMQ's guidance to the letter: the token never expires and the message is acknowledged. A crash loses it."""


@dataclass(frozen=True, kw_only=True)
class GuaranteeOptions:
    """Times are seconds."""

    consumers: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Which consumer group, or groups, must do the messages of each topic."""
    producer_group: str = "guarantee"
    idempotence: Idempotence = Idempotence.LEASE
    lease: float = 60.0
    """How long a consumer may work on a message before another may take it over: longer than any handler runs."""
    max_reconsume_times: int = 16
    """A handler that failed so many times again gets no retry: the message becomes a dead letter."""
    max_sends: int = 8
    """How many times a message is sent before a person must decide."""
    resend_after: float = 60.0
    """How long a message may be on its way before its first resend; the interval doubles with each send."""
    max_resend_after: float = HOUR
    backoff: Callable[[int], float] | None = None
    """Your own rule: seconds until the next resend, after so many sends."""
    poll_interval: float = 5.0
    """How often a resender looks for stubs that are due."""
    batch: int = 100
    """How many stubs a resender claims at once."""
    claim: float = 60.0
    """How long a resender may work on its claim; longer than `batch` sends take."""
    log_patience: float = 3 * HOUR
    """A message received so long ago and still not done was lost on its way: longer than the group's longest retry."""
    retain: float = 7 * DAY
    """How long settled stubs are kept: longer than brokers keep messages."""
    retain_batch: int = 500
    notify: Sequence[Notifier] = ()
    """Called once for each stub that waits for a person: `Mail(...)`, or any function of a `Notice`."""

    def __post_init__(self) -> None:
        for topic, groups in self.consumers.items():
            for name in (topic, *_names(groups)):
                if not is_valid_name(name):
                    raise GuaranteeError(f"consumers: {name!r} is no name of a topic or group in RocketMQ")
        for name in ("lease", "resend_after", "poll_interval", "claim", "log_patience", "retain"):
            if getattr(self, name) <= 0:
                raise GuaranteeError(f"{name} must be positive, not {getattr(self, name)!r}")
        for name in ("max_sends", "batch", "retain_batch"):
            if getattr(self, name) < 1:
                raise GuaranteeError(f"{name} must be at least 1, not {getattr(self, name)!r}")

    @classmethod
    def of(cls, given: "GuaranteeOptions | None", changes: Any) -> Self:
        """Options from an object, keywords, or both (keywords win)."""
        known = {} if given is None else {f.name: getattr(given, f.name) for f in fields(given)}
        return cls(**known | dict(changes))

    def groups_of(self, topic: str) -> tuple[str, ...]:
        """The groups that must do the messages of a topic."""
        groups = _names(self.consumers.get(topic, ()))
        if not groups:
            raise GuaranteeError(
                f"no consumer group is known for topic {topic}: say who must do its messages, "
                f"Guarantee(..., consumers={{{topic!r}: 'its-group'}})"
            )
        return groups

    def only_group(self) -> str:
        """The group, when all topics have the same one."""
        groups = {group for given in self.consumers.values() for group in _names(given)}
        if len(groups) != 1:
            raise GuaranteeError(f"consumers names {len(groups)} groups: say which one consumes here with group='...'")
        return groups.pop()

    def next_resend(self, sends: int) -> float:
        """Seconds until a message that was sent so many times is due again.

        >>> [GuaranteeOptions(resend_after=60, max_resend_after=300).next_resend(sends) for sends in (1, 2, 3, 4)]
        [60.0, 120.0, 240.0, 300.0]
        """
        if self.backoff is not None:
            return self.backoff(sends)
        return float(min(self.max_resend_after, self.resend_after * 2 ** min(max(0, sends - 1), 30)))


class GuaranteeKeywords(TypedDict, total=False):
    """Keywords of a guarantee; see `GuaranteeOptions`."""

    consumers: Mapping[str, str | Sequence[str]]
    producer_group: str
    idempotence: Idempotence
    lease: float
    max_reconsume_times: int
    max_sends: int
    resend_after: float
    max_resend_after: float
    backoff: Callable[[int], float] | None
    poll_interval: float
    batch: int
    claim: float
    log_patience: float
    retain: float
    retain_batch: int
    notify: Sequence[Notifier]


def _names(groups: str | Sequence[str]) -> tuple[str, ...]:
    return (groups,) if isinstance(groups, str) else tuple(groups)
