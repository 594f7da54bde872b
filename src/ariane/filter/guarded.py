"""User filters at work: bounded in time per group, and stopped at the message on which they fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from ariane.filter.errors import FilterFailed
from ariane.protocol.units import QUEUE_OFFSET_AT

_I64 = Struct(">q")

Decide = Callable[[memoryview], bool]


class TimeBudget:
    """The time that a group's filters may use: so many seconds of each second, saved up for one second at most."""

    def __init__(self, share: float, monotonic: Callable[[], float]) -> None:
        self._share = share
        self._monotonic = monotonic
        self._left = share
        self._filled_at = monotonic()

    def has_time(self) -> bool:
        """Whether another message may be looked at now."""
        now = self._monotonic()
        self._left = min(self._share, self._left + (now - self._filled_at) * self._share)
        self._filled_at = now
        return self._left > 0

    def spend(self, started: float) -> None:
        """Take the time since `started` off; one message may overdraw the budget."""
        self._left -= self._monotonic() - started


class GroupBudgets:
    """The time budgets of groups: all filters of a group share one."""

    def __init__(self, monotonic: Callable[[], float], most: int = 4096) -> None:
        self._monotonic = monotonic
        self._most = most
        self._budgets: dict[str, TimeBudget] = {}

    def of(self, group: str, millis_per_second: int) -> TimeBudget:
        """The budget of a group."""
        budget = self._budgets.get(group)
        if budget is None:
            if len(self._budgets) >= self._most:
                self._budgets.clear()
            budget = self._budgets[group] = TimeBudget(millis_per_second / 1000, self._monotonic)
        return budget


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a filter stopped, and why: `failure` is empty when its group has used up its time."""

    offset: int
    failure: str

    def remark(self, group: str, topic: str, queue_id: int) -> str:
        """The sentence for the group's consumers."""
        whose = f"the filter of {group} for {topic}"
        if self.failure:
            return f"{whose} failed at offset {self.offset} of queue {queue_id}: {self.failure}"
        return f"{whose} has used up its time (filterGroupMillisPerSecond): try again in a second"


class GuardedFilter:
    """A user's filter of one group and topic.

    From the first message that it could not decide about it matches nothing, so that a pull returns what comes before;
    `take_stop` says where the next pull must begin. No message is skipped because a filter failed on it.
    """

    needs_properties = True

    def __init__(self, decide: Decide, budget: TimeBudget, monotonic: Callable[[], float], failures: Counter[str]):
        self._decide = decide
        self._budget = budget
        self._monotonic = monotonic
        self._failures = failures
        self._stop: Stop | None = None

    def matches_code(self, tags_code: int) -> bool:
        """Always: the message decides."""
        return True

    def matches_message(self, properties: bytes) -> bool:
        """Always: properties alone do not decide."""
        return True

    def matches_unit(self, unit: memoryview) -> bool:
        """Ask the filter, unless it has stopped in this pull."""
        if self._stop is not None:
            return False
        if not self._budget.has_time():
            self._failures["time"] += 1
            return self._stopped(unit, "")
        started = self._monotonic()
        try:
            return self._decide(unit)
        except FilterFailed as error:
            self._failures[error.reason] += 1
            return self._stopped(unit, str(error))
        finally:
            self._budget.spend(started)

    def take_stop(self) -> Stop | None:
        """Where the filter stopped since the last call, if it did."""
        stop, self._stop = self._stop, None
        return stop

    def _stopped(self, unit: memoryview, failure: str) -> bool:
        self._stop = Stop(_I64.unpack_from(unit, QUEUE_OFFSET_AT)[0], failure)
        return False
