"""Errors of the core: refusals, and fatal errors that must stop a member at once."""

from ariane.errors import ArianeError


class RaftError(ArianeError):
    """Root of the core's errors."""


class NotLeader(RaftError):
    """Only the leader takes this request; `leader` is its name when it is known."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"not the leader: ask {leader}" if leader else "no leader is known: ask again later")
        self.leader = leader


class TransferInProgress(RaftError):
    """Leadership is being transferred: no proposals until the transfer ends. Ask again, perhaps another member."""


class TooManyUncommitted(RaftError):
    """More entries wait for a majority than `max_uncommitted_entries` allows. Propose again after the next commit."""


class TransferRefused(RaftError):
    """The member cannot take leadership over; the text says why."""


class MembershipRefused(RaftError):
    """The change of the group is not safe now; the text says why."""


class SafetyViolation(RaftError):
    """Another member's message contradicts what Raft guarantees: a disk lost acknowledged data, or there is a bug.

    Fatal. Stop the member and keep its files for inspection: continuing could destroy committed entries.
    """
