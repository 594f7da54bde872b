"""The state of a member in every role: the paper's figure 2, "State", with clock and outbox."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from ariane.raft.hard_state import HardState
from ariane.raft.log import Log
from ariane.raft.options import Options
from ariane.raft.outbox import Outbox


class Role(Enum):
    """The role of a member. A learner is a follower that never campaigns."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Become(NamedTuple):
    """A role asks to be replaced by another."""

    role: Role
    transfer: bool = False  # CANDIDATE: the leader asked for it


class State:
    """The state that all roles share."""

    def __init__(
        self, id: str, log: Log, hard_state: HardState, options: Options, random: Callable[[], float], now: int
    ) -> None:
        self.id = id
        self.log = log
        self.hard_state = hard_state
        self.options = options
        self.random = random
        self.now = now
        self.outbox = Outbox(hard_state)
        self.leader: str | None = None
        self.removed_by: tuple[int, int] | None = None  # index and term of a committed entry that excludes this member
        # A leader's lease relies on this member refusing votes while it hears the leader, also across a restart: the
        # first votes wait as if a leader had just been heard.
        self.vote_after = now + options.election_timeout

    @property
    def term(self) -> int:
        """The current term."""
        return self.hard_state.term

    @property
    def others(self) -> list[str]:
        """All other members, in the same order everywhere."""
        return sorted(self.log.membership.members - {self.id})

    @property
    def electable(self) -> bool:
        """Whether this member may campaign."""
        return self.log.may_lead(self.id) and not self.hard_state.abstaining and not self.removed

    @property
    def removed(self) -> bool:
        """Whether a committed entry that this log lacks excludes this member.

        A log without a committed entry cannot win an election (5.4.1), so a member that keeps quiet for this reason is
        never missed. It may have been added again since: then its log gets that entry and later ones.
        """
        if self.removed_by is None:
            return False
        index, term = self.removed_by
        return self.log.commit_index < index and self.log.term(index) != term

    def enter(self, hard_state: HardState) -> None:
        """Change term or vote; no message is sent before the driver has stored them."""
        self.hard_state = hard_state
        self.outbox.require(hard_state)

    def election_deadline(self) -> int:
        """Draw the time of the next election: from one to two time-outs from now."""
        return self.now + self.options.election_timeout + int(self.options.election_timeout * self.random())
