"""The candidate (5.2), and the pre-candidate, which asks whether an election could succeed (dissertation, 9.6)."""

from ariane.raft.hard_state import HardState
from ariane.raft.messages import Message, RequestVote, Vote
from ariane.raft.state import Become, Role, State


class Candidate:
    """One election, or with `pre` one round of pre-votes."""

    def __init__(self, state: State, pre: bool, transfer: bool) -> None:
        self.state = state
        self.role = Role.PRE_CANDIDATE if pre else Role.CANDIDATE
        self.election_deadline = state.election_deadline()
        self._pre = pre
        self._answers: dict[str, bool] = {}  # by voter: granted
        state.leader = None
        if not pre:
            state.enter(HardState(state.term + 1, state.id))
        for voter in sorted(state.log.membership.voters - {state.id}):
            state.outbox.send(
                RequestVote(
                    state.id,
                    voter,
                    state.term + 1 if pre else state.term,
                    state.log.last_index,
                    state.log.last_term,
                    pre,
                    transfer,
                )
            )

    @property
    def deadline(self) -> int:
        """When `tick` has something to do."""
        return self.election_deadline

    def start(self) -> Become | None:
        """Count the own pre-vote. The own vote counts when it is stored."""
        return self._count(self.state.id, True) if self._pre else None

    def tick(self) -> Become | None:
        """Campaign again when the election had no winner, unless this member is no longer a voter."""
        state = self.state
        if state.now < self.election_deadline:
            return None
        if not state.electable:
            return Become(Role.FOLLOWER)
        return Become(Role.PRE_CANDIDATE if state.options.pre_vote else Role.CANDIDATE)

    def step(self, message: Message) -> Become | None:
        """Count a vote."""
        if isinstance(message, Vote) and message.pre == self._pre:
            return self._count(message.source, message.granted)
        return None

    def vote_stored(self) -> Become | None:
        """Count the own vote, now that it is durable."""
        return None if self._pre else self._count(self.state.id, True)

    def persisted(self) -> Become | None:
        """Do nothing: a candidate does not wait for entries."""
        return None

    def flush(self) -> bool:
        """Do nothing: a candidate sends its messages, and syncs its entries, at once."""
        return True

    def _count(self, voter: str, granted: bool) -> Become | None:
        self._answers[voter] = granted
        group = self.state.log.membership
        if group.has_quorum([voter for voter, yes in self._answers.items() if yes]):
            return Become(Role.CANDIDATE if self._pre else Role.LEADER)
        if group.has_quorum([voter for voter, yes in self._answers.items() if not yes]):
            return Become(Role.FOLLOWER)
        return None
