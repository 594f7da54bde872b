"""The follower: takes the leader's entries and acknowledges those that are durable (5.3)."""

from ariane.raft.entry import NO_INDEX
from ariane.raft.errors import SafetyViolation
from ariane.raft.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    ResetLog,
    TimeoutNow,
)
from ariane.raft.state import Become, Role, State


class Follower:
    """A follower in one term."""

    def __init__(self, state: State, election_deadline: int | None = None) -> None:
        self.role = Role.FOLLOWER
        self.state = state
        self.election_deadline = state.election_deadline() if election_deadline is None else election_deadline
        self.matched = NO_INDEX  # the log is known to match the leader's of this term up to here
        self._owed = False  # the leader waits for an acknowledgement

    @property
    def deadline(self) -> int:
        """When `tick` has something to do."""
        return self.election_deadline

    def tick(self) -> Become | None:
        """Campaign when no leader was heard from for an election time-out."""
        state = self.state
        if state.now < self.election_deadline:
            return None
        state.leader = None
        self.election_deadline = state.election_deadline()
        if not state.electable:
            return None
        return Become(Role.PRE_CANDIDATE if state.options.pre_vote else Role.CANDIDATE)

    def step(self, message: Message) -> Become | None:
        """Take a message of this term."""
        if isinstance(message, AppendEntries):
            self._hear(message.source)
            self._append_entries(message)
        elif isinstance(message, Heartbeat):
            self._hear(message.source)
            self._commit(message.leader_commit)
            self.state.outbox.send(HeartbeatReply(self.state.id, message.source, self.state.term, message.sent))
        elif isinstance(message, ResetLog):
            self._hear(message.source)
            self._reset_log(message)
        elif isinstance(message, TimeoutNow) and self.state.electable:
            return Become(Role.CANDIDATE, transfer=True)
        return None

    def _hear(self, leader: str) -> None:
        """The leader is alive: no election, and no vote for another, for a while."""
        state = self.state
        state.leader = leader
        state.vote_after = state.now + state.options.election_timeout
        self.election_deadline = state.election_deadline()

    def _append_entries(self, message: AppendEntries) -> None:
        log = self.state.log
        if message.prev_log_index < log.start.index - 1:  # an old message: its entries are committed and deleted
            self.matched = max(self.matched, log.commit_index)
            self._acknowledge()
            return
        if log.term(message.prev_log_index) != message.prev_log_term:
            if message.prev_log_index <= log.commit_index:
                raise SafetyViolation(
                    f"{message.source}, leader of term {message.term}, has another entry {message.prev_log_index} than "
                    "the committed one here: stop this member and compare the logs of the group"
                )
            agree = log.last_at_most(message.prev_log_index, message.prev_log_term)
            self._reply(success=False, match_index=message.prev_log_index, hint_index=agree)
            return
        for number, entry in enumerate(message.entries):
            term = log.term(entry.index)
            if term != entry.term:
                if term is not None:
                    log.truncate(entry.index)
                log.append(message.entries[number:])
                break
        self.matched = max(self.matched, message.prev_log_index + len(message.entries))
        self._commit(message.leader_commit)
        self._acknowledge()

    def _reset_log(self, message: ResetLog) -> None:
        log = self.state.log
        last = message.start.index - 1
        if last > log.commit_index:
            if log.term(last) == message.start.previous_term:
                log.commit(last)  # nothing is missing here
            else:
                log.reset(message.start)
        self.matched = max(self.matched, last)
        self._acknowledge()

    def _commit(self, leader_commit: int) -> None:
        """Follow the leader's commit index as far as the log is known to match the leader's."""
        self.state.log.commit(min(leader_commit, self.matched))

    def _acknowledge(self) -> None:
        """Acknowledge the matching entries, now or when they are durable."""
        self._owed = True
        if self.state.log.persisted_index >= self.matched:
            self.persisted()

    def persisted(self) -> Become | None:
        """Acknowledge entries that have become durable."""
        if self._owed and self.state.leader:
            self._owed = self.state.log.persisted_index < self.matched
            self._reply(success=True, match_index=min(self.matched, self.state.log.persisted_index))
        return None

    def vote_stored(self) -> Become | None:
        """Do nothing: only the outbox waits for it."""
        return None

    def flush(self) -> bool:
        """Do nothing: a follower sends its messages, and syncs its entries, at once."""
        return True

    def _reply(self, success: bool, match_index: int, hint_index: int = 0) -> None:
        state = self.state
        assert state.leader is not None
        hint_term = 0 if success else state.log.term(hint_index)
        assert hint_term is not None
        state.outbox.send(AppendReply(state.id, state.leader, state.term, success, match_index, hint_index, hint_term))
