"""The members of a group: voters, which make majorities, and learners, which only receive entries."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Membership:
    """A configuration of the group (dissertation, chapter 4).

    >>> group = Membership(frozenset({"a", "b", "c"}))
    >>> group.has_quorum({"a", "b"}), group.has_quorum({"a", "x", "y"})
    (True, False)
    >>> group.quorum_value({"a": 9, "b": 7, "c": 2})
    7
    """

    voters: frozenset[str]
    learners: frozenset[str] = frozenset()
    addresses: tuple[tuple[str, str], ...] = ()
    """Where the members are, by name; for the driver, the core does not read it."""

    def __post_init__(self) -> None:
        if not self.voters:
            raise ValueError("a group needs at least one voter")
        if both := self.voters & self.learners:
            raise ValueError(f"{', '.join(sorted(both))} cannot be voter and learner at once")

    @property
    def members(self) -> frozenset[str]:
        """Voters and learners."""
        return self.voters | self.learners

    def has_quorum(self, members: Collection[str]) -> bool:
        """Test for a majority of the voters among `members`."""
        return sum(voter in members for voter in self.voters) > len(self.voters) // 2

    def quorum_value(self, values: Mapping[str, int]) -> int:
        """Return the highest value that a majority of the voters has reached. Each voter needs a value."""
        reached = sorted((values[voter] for voter in self.voters), reverse=True)
        return reached[len(reached) // 2]

    def with_voter(self, member: str) -> "Membership":
        """Add a voter, or promote a learner."""
        return Membership(self.voters | {member}, self.learners - {member}, self.addresses)

    def with_learner(self, member: str, address: str = "") -> "Membership":
        """Add a learner, or demote a voter."""
        known = dict(self.addresses)
        if address:
            known[member] = address
        return Membership(self.voters - {member}, self.learners | {member}, tuple(sorted(known.items())))

    def without(self, member: str) -> "Membership":
        """Remove a voter or learner."""
        left = tuple(pair for pair in self.addresses if pair[0] != member)
        return Membership(self.voters - {member}, self.learners - {member}, left)

    def __str__(self) -> str:
        learners = f" learners {' '.join(sorted(self.learners))}" if self.learners else ""
        return f"voters {' '.join(sorted(self.voters))}{learners}"
