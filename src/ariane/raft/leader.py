"""The leader: replicates its log, commits entries that a majority has, and steps down without a majority (5.3, 5.4)."""

from collections.abc import Sequence

from ariane.raft.entry import Entry
from ariane.raft.errors import MembershipRefused, TooManyUncommitted, TransferInProgress, TransferRefused
from ariane.raft.membership import Membership
from ariane.raft.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    Removed,
    RequestStatus,
    ResetLog,
    TimeoutNow,
)
from ariane.raft.progress import Flow, Progress
from ariane.raft.state import Become, Role, State


class Leader:
    """The leader of one term."""

    def __init__(self, state: State) -> None:
        self.role = Role.LEADER
        self.state = state
        state.leader = state.id
        self.progress: dict[str, Progress] = {}
        self._follow_membership()
        self._inherited = state.log.last_index  # entries of earlier terms, which do not count as waiting here
        self._heartbeat_at = state.now  # the first at once
        self._sync_to = state.log.last_index  # the last entry that the driver was told to sync
        self._commit_news_at: int | None = None  # when members that get no entries meanwhile are told of a commit
        self._transferee: str | None = None
        self._transfer_deadline = 0
        self._timeout_now_sent = False  # from then on another member may be elected at any time: the lease is void

    # -- inputs ---------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> int:
        """When `tick` has something to do."""
        deadline = min(self._heartbeat_at, self._quorum_heard() + self.state.options.election_timeout)
        if self._transferee:
            deadline = min(deadline, self._transfer_deadline)
        if self._commit_news_at is not None:
            deadline = min(deadline, self._commit_news_at)
        return deadline

    def tick(self) -> Become | None:
        """Send heartbeats; step down when no majority has answered for an election time-out (6.2, check quorum)."""
        state = self.state
        if state.now - self._quorum_heard() >= state.options.election_timeout:
            return Become(Role.FOLLOWER)
        if self._transferee and state.now >= self._transfer_deadline:
            self._transferee = None
        if state.now >= self._heartbeat_at:
            self._heartbeat_at = state.now + state.options.heartbeat_interval
            for member, progress in self.progress.items():
                commit = min(state.log.commit_index, progress.match_index)
                state.outbox.send(Heartbeat(state.id, member, state.term, commit, state.now))
        return None

    def step(self, message: Message) -> Become | None:
        """Take an answer of this term."""
        progress = self.progress.get(message.source)
        if progress is None:
            return None
        if isinstance(message, AppendReply):
            progress.heard = self.state.now
            if message.success:
                progress.acknowledged(message.match_index)
                if progress.commit_told < self.state.log.commit_index:
                    self._tell_commit()
                return self._commit()
            agree = self.state.log.last_at_most(message.hint_index, message.hint_term)
            progress.refused(message.match_index, agree)
        elif isinstance(message, HeartbeatReply):
            progress.heard = self.state.now
            progress.lease_from = max(progress.lease_from, message.sent)
            progress.answered(message.sent)
        elif isinstance(message, RequestStatus):
            progress.abstained = self.state.now
            if message.last_log_index < progress.match_index:
                progress.lost(message.last_log_index)
        return None

    @property
    def transferring(self) -> bool:
        """Whether the leadership is being transferred."""
        return bool(self._transferee)

    def propose(self, blocks: Sequence[tuple[int, int]], membership: Membership | None = None) -> int:
        """Append entries of this term; return the index of the first."""
        state = self.state
        if self._transferee:
            raise TransferInProgress(f"leadership is being transferred to {self._transferee}: propose there")
        first = state.log.last_index + 1
        waiting = first - 1 - max(state.log.commit_index, self._inherited)
        if waiting + len(blocks) > state.options.max_uncommitted_entries:
            raise TooManyUncommitted(f"{waiting} entries wait for a majority: propose again after a commit")
        state.log.append(
            [
                Entry(first + number, state.term, position, size, membership)
                for number, (position, size) in enumerate(blocks)
            ]
        )
        if membership:
            self._follow_membership()
        return first

    def change_membership(self, membership: Membership, position: int, size: int) -> int:
        """Append a new configuration, in force at once; return its index."""
        self.check_membership(membership)
        return self.propose([(position, size)], membership)

    def check_membership(self, membership: Membership) -> None:
        """Raise MembershipRefused when a change is not safe now.

        One voter at a time, so that majorities of both configurations overlap; one change at a time; and only after
        an entry of this term is committed, or two leaders could make conflicting changes (dissertation, 4.1, and its
        erratum of 2015). Joint consensus would allow several voters at once, and would need majorities of two groups
        at a time in elections, commits, leases and check quorum; operators replace one member at a time.
        """
        log = self.state.log
        old = log.membership
        changed = old.voters ^ membership.voters
        if self._transferee:
            raise TransferInProgress(f"leadership is being transferred to {self._transferee}: change the group there")
        if not self.term_committed:
            raise MembershipRefused("no entry of this term is committed yet: change the group after the first is")
        if log.membership_index > log.commit_index:
            raise MembershipRefused(
                f"the change at entry {log.membership_index} is not committed yet: change again later"
            )
        if len(changed) > 1:
            raise MembershipRefused(f"{' and '.join(sorted(changed))} cannot change at once: one voter at a time")
        for member in changed & membership.voters:
            progress = self.progress.get(member)
            if progress is None:
                raise MembershipRefused(f"{member} is new: add it as a learner and wait until it has the log")
            behind = log.last_index - progress.match_index
            if behind > self.state.options.max_inflight_entries:
                raise MembershipRefused(f"{member} is {behind} entries behind: wait until it has caught up")
            if member not in self.healthy:
                raise MembershipRefused(f"{member} does not answer, or may not vote yet: wait until it does")
        if not membership.has_quorum(self.healthy):
            raise MembershipRefused(f"no majority of {membership} is up and votes: change the group when it is")

    def transfer(self, member: str) -> None:
        """Transfer leadership to `member` once it has all entries; give up after an election time-out (3.10)."""
        if member == self.state.id:
            return
        if member not in self.state.log.membership.voters:
            raise TransferRefused(f"{member} is not a voter of the group")
        self._transferee = member
        self._transfer_deadline = self.state.now + self.state.options.election_timeout

    def persisted(self) -> Become | None:
        """Count the leader's own entries, now that they are durable."""
        return self._commit()

    def vote_stored(self) -> Become | None:
        """A leader's vote was stored before it was elected."""
        return None

    # -- what follows from them -----------------------------------------------------------------------------

    @property
    def term_committed(self) -> bool:
        """Whether an entry of this term is committed, and so all entries of earlier terms."""
        log = self.state.log
        return log.term(log.commit_index) == self.state.term

    @property
    def lease_end(self) -> int | None:
        """Until when no other member can be elected, by this member's clock; None without a lease."""
        options = self.state.options
        if not options.lease or self._timeout_now_sent or not self.term_committed:
            return None
        times = {member: progress.lease_from for member, progress in self.progress.items()}
        times[self.state.id] = self.state.now
        return self.state.log.membership.quorum_value(times) + options.election_timeout - options.lease_margin

    def flush(self) -> bool:
        """Send each member the entries that flow control allows, in batches of all entries proposed meanwhile.

        Return whether to sync the leader's own entries. Each must be on another voter's disk too before it commits, so
        what gathers for all of them gathers here, and is synced beside them.
        """
        tell = self._commit_news_at is not None and self.state.now >= self._commit_news_at
        if tell:
            self._commit_news_at = None
        for member, progress in self.progress.items():
            self._replicate(member, progress, tell)
        transferee = self.progress.get(self._transferee or "")
        if transferee and transferee.match_index == self.state.log.last_index and not transferee.waiting:
            state = self.state
            assert self._transferee
            state.outbox.send(TimeoutNow(state.id, self._transferee, state.term, state.log.last_index))
            transferee.waiting = self._timeout_now_sent = True  # repeated after a heartbeat reply, like every message
            transferee.sent_at = state.now
        return self._sync()

    def _sync(self) -> bool:
        log, options = self.state.log, self.state.options
        voters = log.membership.voters
        if options.gather_bytes and voters != {self.state.id}:
            sent = [progress.next_index - 1 for member, progress in self.progress.items() if member in voters]
            if max(sent, default=-1) <= self._sync_to:
                return False
        self._sync_to = log.last_index
        return True

    def _replicate(self, member: str, progress: Progress, tell: bool) -> None:
        """Send a member its next entries; with `tell`, the commit index too if it has them all."""
        state, log = self.state, self.state.log
        if progress.flow is not Flow.REPLICATE and progress.waiting:
            return
        if log.term(progress.next_index - 1) is None:  # before the first entry
            start = log.start
            state.outbox.send(ResetLog(state.id, member, state.term, start))
            progress.refill()
            progress.sent_at = state.now
            return
        if progress.flow is not Flow.REPLICATE:
            progress.flow = Flow.PROBE
            progress.waiting = True
            self._append_entries(member, progress, ())
            return
        while progress.next_index <= log.last_index:
            max_entries, max_bytes = progress.room(state.options)
            if not max_entries:
                break
            gather = state.options.gather_bytes
            if progress.owes_answer and log.size_from(progress.next_index, gather) < gather:
                break  # it syncs what it has; the answer to that releases what has gathered until then
            entries = log.entries(progress.next_index, max_entries, max_bytes)
            self._append_entries(member, progress, entries)
            progress.sent(entries)
        caught_up = progress.next_index > log.last_index
        if progress.check or (tell and caught_up and progress.commit_told < log.commit_index):
            self._append_entries(member, progress, ())

    def _append_entries(self, member: str, progress: Progress, entries: tuple[Entry, ...]) -> None:
        state, log = self.state, self.state.log
        prev_log_term = log.term(progress.next_index - 1)
        assert prev_log_term is not None
        state.outbox.send(
            AppendEntries(
                state.id, member, state.term, progress.next_index - 1, prev_log_term, entries, log.commit_index
            )
        )
        progress.commit_told = log.commit_index
        progress.sent_at = state.now
        progress.check = False

    def _commit(self) -> Become | None:
        """Commit entries durable on a majority, if of this term: older ones may be overwritten (figure 8)."""
        state, log = self.state, self.state.log
        matches = {member: progress.match_index for member, progress in self.progress.items()}
        matches[state.id] = log.persisted_index
        index = log.membership.quorum_value(matches)
        if index > log.commit_index and log.term(index) == state.term:
            before = log.committed_membership[1]
            log.commit(index)
            self._tell_removed(before)
            self._tell_commit()
            if log.membership_index <= index and state.id not in log.membership.voters:
                self._commit_news_at = state.now
                self.flush()  # last message as leader: the others learn of the commit
                return Become(Role.FOLLOWER)  # removed from the group (dissertation, 4.2.2)
        return None

    def _tell_commit(self) -> None:
        """Tell members of a commit soon; those that get entries before learn it from these."""
        if self._commit_news_at is None:
            self._commit_news_at = self.state.now + self.state.options.commit_delay

    def _tell_removed(self, before: Membership) -> None:
        """Tell the members that a committed change has removed; they get no entries any more."""
        state = self.state
        index, membership = state.log.committed_membership
        term = state.log.term(index)
        for member in sorted(before.members - membership.members - {state.id}):
            if term is not None and member not in state.log.membership.members:
                state.outbox.send(Removed(state.id, member, state.term, index, term))

    @property
    def healthy(self) -> list[str]:
        """The members that have answered within an election time-out and do not abstain."""
        since = self.state.now - self.state.options.election_timeout
        return [self.state.id] + [
            member
            for member, progress in self.progress.items()
            if progress.heard > since and (progress.abstained is None or progress.abstained < since)
        ]

    def _quorum_heard(self) -> int:
        """Return the time since which a majority has been heard."""
        times = {member: progress.heard for member, progress in self.progress.items()}
        times[self.state.id] = self.state.now
        return self.state.log.membership.quorum_value(times)

    def _follow_membership(self) -> None:
        """Keep a progress for each other member."""
        state = self.state
        self.progress = {
            member: self.progress.get(member) or Progress(state.log.last_index + 1, state.now)
            for member in state.others
        }
