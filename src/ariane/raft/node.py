"""A member of a group: events in, work out. Contains the rules of all roles; each role has its own in its module."""

from collections.abc import Callable, Sequence

from ariane.raft.candidate import Candidate
from ariane.raft.entry import LogStart
from ariane.raft.errors import NotLeader, SafetyViolation
from ariane.raft.follower import Follower
from ariane.raft.hard_state import HardState
from ariane.raft.leader import Leader
from ariane.raft.log import Log
from ariane.raft.membership import Membership
from ariane.raft.messages import FROM_LEADER, HeartbeatReply, Message, Removed, RequestStatus, RequestVote, Status, Vote
from ariane.raft.options import Options
from ariane.raft.ready import Ready, RoleChange
from ariane.raft.recovery import Recovery
from ariane.raft.state import Become, Role, State


class Node:
    """One member. Inputs are methods; after each, or after several, do what `ready` returns.

    `random` returns numbers from 0 up to 1; `now` is any clock that never goes back, the one given to `tick`.
    """

    def __init__(
        self,
        id: str,
        log: Log,
        hard_state: HardState,
        options: Options,
        random: Callable[[], float],
        now: int,
    ) -> None:
        self._state = State(id, log, hard_state, options, random, now)
        if hard_state.term < log.last_term:  # entries were stored before their term: no message was sent in it
            self._state.enter(hard_state._replace(term=log.last_term, vote=None))
        self._role: Follower | Candidate | Leader = Follower(self._state)
        self._recovery = Recovery(self._state) if hard_state.abstaining else None
        self._told_commit = log.commit_index
        self._told_role: RoleChange | None = None

    # -- inputs ---------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Tell the time. Call it before other inputs, and at the latest when `deadline` is reached."""
        self._state.now = max(now, self._state.now)
        if self._recovery:
            self._recovery.tick()
        if self._state.now >= self._role.deadline:
            self._become(self._role.tick())

    def step(self, message: Message) -> None:
        """Take a message of another member."""
        state = self._state
        if isinstance(message, RequestVote):
            self._request_vote(message)
        elif isinstance(message, RequestStatus):
            self._request_status(message)
        elif isinstance(message, Status):
            if self._recovery:
                self._recovery.status(message)
                self._end_recovery()
        elif isinstance(message, Removed):
            if state.log.commit_index < message.entry_index:
                state.removed_by = (message.entry_index, message.entry_term)
        elif message.term < state.term:
            if isinstance(message, FROM_LEADER):  # its term has ended; the answer says so
                state.outbox.send(HeartbeatReply(state.id, message.source, state.term, 0))
        elif isinstance(message, Vote) and message.pre and message.granted:
            self._become(self._role.step(message))  # a term that no member has entered
        else:
            if message.term > state.term:
                self._follow(message.term)
            if isinstance(message, FROM_LEADER) and not isinstance(self._role, Follower):
                if isinstance(self._role, Leader):
                    raise SafetyViolation(
                        f"{message.source} leads term {message.term} too: stop this member; some disk has lost a vote"
                    )
                self._become(Become(Role.FOLLOWER))
            self._become(self._role.step(message))
            self._end_recovery()

    def propose(self, blocks: Sequence[tuple[int, int]]) -> int:
        """Append entries, given as position and size of each; return the index of the first. Leader only."""
        return self._leader().propose(blocks)

    def check_membership(self, membership: Membership) -> None:
        """Raise the RaftError that `change_membership` would. Leader only."""
        self._leader().check_membership(membership)

    def change_membership(self, membership: Membership, position: int, size: int) -> int:
        """Append an entry that makes `membership` the group; return its index. Leader only; one voter at a time."""
        return self._leader().change_membership(membership, position, size)

    def transfer(self, member: str) -> None:
        """Transfer leadership to `member`. Proposals are refused until it leads or the attempt ends. Leader only."""
        self._leader().transfer(member)

    @property
    def transferring(self) -> bool:
        """Whether proposals are refused because the leadership is being transferred."""
        return isinstance(self._role, Leader) and self._role.transferring

    def persisted(self, number: int) -> None:
        """Report that the log writes up to this `Write.number` are durable."""
        self._state.log.persisted(number)
        self._become(self._role.persisted())
        self._end_recovery()

    def vote_stored(self, hard_state: HardState) -> None:
        """Report that this hard state is durable."""
        if self._state.outbox.stored(hard_state):
            self._become(self._role.vote_stored())

    def compact(self, start: LogStart) -> None:
        """Report that the entries before `start` are deleted; `start_at` makes it."""
        self._state.log.compact(start)

    def change_options(self, options: Options) -> None:
        """Change the timings, when members of another implementation join or leave."""
        self._state.options = options

    # -- outputs --------------------------------------------------------------------------------------------

    def ready(self) -> Ready:
        """Return the work since the last call."""
        state = self._state
        sync = self._role.flush()
        told = self._told_role
        role = None
        if told is None or told.role is not self._role.role or told.term != state.term or told.leader != state.leader:
            role = self._told_role = RoleChange(self._role.role, state.term, state.leader)
        commit_index = state.log.commit_index
        ready = Ready(
            state.outbox.take_hard_state(),
            state.log.take_write(),
            sync,
            state.outbox.take_messages(),
            commit_index if commit_index != self._told_commit else None,
            role,
        )
        self._told_commit = commit_index
        return ready

    @property
    def deadline(self) -> int:
        """When to call `tick` at the latest."""
        deadline = self._role.deadline
        return min(deadline, self._recovery.ask_at) if self._recovery else deadline

    @property
    def id(self) -> str:
        """The name of this member."""
        return self._state.id

    @property
    def role(self) -> Role:
        """The role of this member."""
        return self._role.role

    @property
    def leader(self) -> str | None:
        """The leader of this term, as far as it is known."""
        return self._state.leader

    @property
    def hard_state(self) -> HardState:
        """Term and vote, perhaps not stored yet."""
        return self._state.hard_state

    @property
    def log(self) -> Log:
        """The log, read-only."""
        return self._state.log

    @property
    def removed(self) -> bool:
        """Whether the group has removed this member: its log says so, or another member does."""
        state = self._state
        return state.removed or (
            state.log.membership_index <= state.log.commit_index and state.id not in state.log.membership.members
        )

    @property
    def term_committed(self) -> bool:
        """Leader: an entry of its term is committed, so it knows every committed entry. Serve nothing before."""
        return isinstance(self._role, Leader) and self._role.term_committed

    @property
    def hears_leader(self) -> bool:
        """Whether this member leads or has lately heard the leader, so that it does not vote in a higher term."""
        return isinstance(self._role, Leader) or self._state.now < self._state.vote_after

    @property
    def lease_end(self) -> int | None:
        """Leader: until when no other can be elected, so that reads need no majority. None without a lease."""
        return self._role.lease_end if isinstance(self._role, Leader) else None

    @property
    def healthy(self) -> list[str]:
        """Leader: the members that answer and may vote."""
        return self._role.healthy if isinstance(self._role, Leader) else []

    def progress(self, member: str) -> tuple[str, int] | None:
        """Leader: the replication progress of `member`."""
        progress = self._role.progress.get(member) if isinstance(self._role, Leader) else None
        return (progress.flow.value, progress.match_index) if progress else None

    # -- rules for all roles --------------------------------------------------------------------------------

    def _leader(self) -> Leader:
        if not isinstance(self._role, Leader):
            raise NotLeader(self._state.leader)
        return self._role

    def _follow(self, term: int) -> None:
        """Enter a higher term as a follower; its leader is not known yet."""
        state = self._state
        state.enter(state.hard_state._replace(term=term, vote=None))
        state.leader = None
        deadline = None if isinstance(self._role, Leader) else self._role.election_deadline
        self._role = Follower(state, deadline)  # only a leader or a granted vote postpones an election (5.2)

    def _become(self, become: Become | None) -> None:
        while become:
            state = self._state
            if become.role is Role.LEADER:
                self._role = Leader(state)
                become = self._role.tick()
            elif become.role is Role.FOLLOWER:
                state.leader = None
                self._role = Follower(state)
                become = None
            else:
                self._role = Candidate(state, become.role is Role.PRE_CANDIDATE, become.transfer)
                become = self._role.start()

    def _request_vote(self, message: RequestVote) -> None:
        """Vote for the first candidate of a term whose log is as complete as this one (5.2, 5.4.1)."""
        state = self._state
        self._tell_removed(message)
        if not message.transfer and message.term > state.term and self.hears_leader:
            return  # 4.2.3: a member that hears a leader neither votes nor enters a higher term
        if message.term > state.term and not message.pre:
            self._follow(message.term)
        granted = (
            state.log.up_to_date(message.last_log_index, message.last_log_term)
            and not state.hard_state.abstaining
            and (message.term > state.term if message.pre else self._may_vote(message.source, message.term))
        )
        if granted and not message.pre:
            state.enter(state.hard_state._replace(vote=message.source))
            if isinstance(self._role, Follower):
                self._role.election_deadline = state.election_deadline()
        term = message.term if granted else state.term
        state.outbox.send(Vote(state.id, message.source, term, granted, message.pre))

    def _tell_removed(self, message: RequestVote) -> None:
        """Tell a candidate that the group has removed it. One that was added again has a longer log, and no need."""
        state = self._state
        index, membership = state.log.committed_membership
        term = state.log.term(index)
        if (
            message.source not in membership.members
            and message.source not in state.log.membership.members
            and term is not None
            and index >= 0
            and not state.log.up_to_date(message.last_log_index, message.last_log_term)
        ):
            state.outbox.send(Removed(state.id, message.source, state.term, index, term))

    def _may_vote(self, candidate: str, term: int) -> bool:
        """One vote in a term."""
        return term == self._state.term and self._state.hard_state.vote in (None, candidate)

    def _request_status(self, message: RequestStatus) -> None:
        state = self._state
        leader = isinstance(self._role, Leader)
        if leader:
            self._role.step(message)
        state.outbox.send(Status(state.id, message.source, state.term, message.nonce, leader, state.log.last_index))

    def _end_recovery(self) -> None:
        state = self._state
        if self._recovery and isinstance(self._role, Follower) and self._recovery.complete(self._role.matched):
            self._recovery = None
            state.enter(HardState(state.term, state.leader))
