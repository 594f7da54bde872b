"""Lets a member that has lost its term, vote or acknowledged entries become a voter again safely.

It may have voted in a term T it no longer knows, and acknowledged entries it no longer has. If it voted again in T, two
leaders of T would be possible; if it voted for a log without those entries, they would be lost although a majority's
disks are intact. So it abstains: it receives and acknowledges entries, but neither votes nor campaigns, until both
risks are excluded:

- Every other voter has reported its term after this start. A candidate stores its term before it asks for votes, so T
  is at most the highest of them, M.
- The leader of a term of at least M has reported its last index after this start, and this log is durably the same
  up to there. What this member acknowledged to that leader before is below that index; what it acknowledged to earlier
  leaders is in that leader's log, or was never committed (leader completeness).

A server that was never a member abstains too: it does not belong to the membership of its log until it is added.

Then it takes the leader's term with a vote for the leader, and votes from the next term on. While another voter is
permanently unreachable it stays abstaining; remove that one from the group, or this one.
"""

from ariane.raft.messages import RequestStatus, Status
from ariane.raft.state import State


class Recovery:
    """The status requests of one abstaining member since its start."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._nonce = int(state.random() * (1 << 53))
        self._terms: dict[str, int] = {}  # by member: the term that it reported
        self._target: tuple[int, int] | None = None  # a leader's term, and its last index then
        self.ask_at = state.now

    def tick(self) -> None:
        """Ask the other voters periodically: answers get lost, and leaders change."""
        state = self._state
        if state.now >= self.ask_at:
            self.ask_at = state.now + state.options.heartbeat_interval
            # The leader may be newer than the remaining log here.
            asked = state.log.membership.voters | ({state.leader} if state.leader else set())
            for voter in sorted(asked - {state.id}):
                state.outbox.send(RequestStatus(state.id, voter, state.term, self._nonce, state.log.persisted_index))

    def status(self, message: Status) -> None:
        """Take an answer; answers to an earlier start are ignored."""
        if message.nonce != self._nonce:
            return
        self._terms[message.source] = max(message.term, self._terms.get(message.source, 0))
        # A later answer of the same leader asks for more than is needed, so the first one stays.
        if message.leader and (self._target is None or self._target[0] < message.term):
            self._target = (message.term, message.last_log_index)

    def complete(self, matched: int) -> bool:
        """Test whether the member may vote again; the log up to `matched` is the leader's of the current term."""
        state = self._state
        if self._target is None:
            return False
        term, last_index = self._target
        others = state.log.membership.voters - {state.id}
        return (
            state.id in state.log.membership.members
            and others <= self._terms.keys()
            and all(term >= self._terms[voter] for voter in others)
            and term == state.term
            and last_index <= min(matched, state.log.persisted_index)
        )
