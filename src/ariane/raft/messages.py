"""Messages between members. The names are the paper's; messages that it does not have are marked.

Every message names its sender, its receiver and a term. Messages may be lost, doubled and reordered.
"""

from typing import NamedTuple, TypeAlias

from ariane.raft.entry import Entry, LogStart


class RequestVote(NamedTuple):
    """A candidate asks for a vote. With `pre`, whether it would get one in `term`, which no member has entered yet."""

    source: str
    target: str
    term: int
    last_log_index: int
    last_log_term: int
    pre: bool = False
    transfer: bool = False  # the leader asked for this election: voters need not wait for its lease to end


class Vote(NamedTuple):
    """The answer to RequestVote. `term` is the voter's, or for a granted pre-vote that of the request."""

    source: str
    target: str
    term: int
    granted: bool
    pre: bool = False


class AppendEntries(NamedTuple):
    """The leader's entries after `prev_log_index`. Without entries: a probe, or an update of the commit index."""

    source: str
    target: str
    term: int
    prev_log_index: int
    prev_log_term: int
    entries: tuple[Entry, ...]
    leader_commit: int


class AppendReply(NamedTuple):
    """The answer to AppendEntries and ResetLog.

    Success: the log matches the leader's up to `match_index`, durably. Failure: it differs at `match_index`, the
    `prev_log_index` of the request; it can match at most up to `hint_index`, where the term is at most `hint_term`.
    """

    source: str
    target: str
    term: int
    success: bool
    match_index: int
    hint_index: int = 0
    hint_term: int = 0


class Heartbeat(NamedTuple):
    """The leader is alive. `leader_commit` never exceeds what the receiver has acknowledged."""

    source: str
    target: str
    term: int
    leader_commit: int
    sent: int  # the leader's clock, returned by the reply; the lease is counted from it


class HeartbeatReply(NamedTuple):
    """The answer to Heartbeat, and to any message of a leader whose term is over (`sent` is then meaningless)."""

    source: str
    target: str
    term: int
    sent: int


class ResetLog(NamedTuple):
    """The leader has deleted entries that the follower needs: discard the log, begin at `start`.

    Replaces the paper's InstallSnapshot; entries before `start` are deleted, so there is no state to send.
    """

    source: str
    target: str
    term: int
    start: LogStart


class TimeoutNow(NamedTuple):
    """Start an election at once (dissertation, 3.10): the receiver has the leader's log up to `last_log_index`."""

    source: str
    target: str
    term: int
    last_log_index: int


class RequestStatus(NamedTuple):
    """An abstaining member asks for terms. Not in the paper; see `Recovery`."""

    source: str
    target: str
    term: int
    nonce: int  # distinguishes this start of the member from earlier ones
    last_log_index: int  # what it has left


class Status(NamedTuple):
    """The answer to RequestStatus. `last_log_index` is meaningful when `leader` is set."""

    source: str
    target: str
    term: int
    nonce: int
    leader: bool
    last_log_index: int


class Removed(NamedTuple):
    """The committed entry `entry_index` of term `entry_term` excludes the receiver from the group. Not in the paper.

    A removed member gets no entries any more, so it cannot learn of its removal from its log. The leader sends this
    once when the removal is committed, and every member that knows of it answers a removed candidate with it.
    """

    source: str
    target: str
    term: int
    entry_index: int
    entry_term: int


Message: TypeAlias = (
    RequestVote
    | Vote
    | AppendEntries
    | AppendReply
    | Heartbeat
    | HeartbeatReply
    | ResetLog
    | TimeoutNow
    | RequestStatus
    | Status
    | Removed
)
FROM_LEADER = (AppendEntries, Heartbeat, ResetLog, TimeoutNow)
