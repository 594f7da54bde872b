"""Options of a member."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ariane.raft import Options

_GATHER: Final = 1 << 16  # bytes for which the answer to earlier entries is not awaited
_COMMIT_DELAY: Final = 20  # ms: only readers of a follower wait for it


@dataclass(frozen=True, kw_only=True)
class MemberOptions:
    """A member of a group, checked when made.

    >>> MemberOptions(group="g", id="n1", peers={"n0": "127.0.0.1:1"})
    Traceback (most recent call last):
    ValueError: dLegerSelfId n1 is not among the members of dLegerPeers: n0
    """

    group: str
    id: str
    peers: dict[str, str]
    """The address of each member by its id, this one's too."""
    heartbeat_ms: int = 150
    election_ms: int = 1000
    """The minimum time without a heartbeat before a member campaigns; the actual time is random, up to twice this."""
    mixed_heartbeat_ms: int = 1000
    """The same in a group with Apache's members, which send heartbeats every 2 s and wait 6 s."""
    mixed_election_ms: int = 4000
    commit_timeout_ms: int = 2500
    """How long an append may wait for a majority."""
    gather_ms: int = 15_000
    """How long a member without files waits for all the others before a majority without files begins a new group."""
    checkpoint_ms: int = 3000
    durable_ack: bool = True
    """Whether entries count when they are synced; otherwise once they are written, which a power cut can undo."""
    scrub_rate: int = 1 << 20
    """Bytes a second of committed entries that are read again to find damaged ones; 0 reads none."""
    scrub_pause_ms: int = 60_000
    """The time between two rounds over the whole log."""
    preferred_leaders: tuple[str, ...] = ()
    accepts: Callable[[str], bool] | None = None
    """Whether requests from a host are answered; None: from any."""

    def __post_init__(self) -> None:
        if self.id not in self.peers:
            raise ValueError(
                f"dLegerSelfId {self.id} is not among the members of dLegerPeers: {', '.join(sorted(self.peers))}"
            )

    def raft(self, *, mixed: bool) -> Options:
        """The core's options; Apache's members have neither pre-vote nor lease."""
        return Options(
            heartbeat_interval=self.mixed_heartbeat_ms if mixed else self.heartbeat_ms,
            election_timeout=self.mixed_election_ms if mixed else self.election_ms,
            pre_vote=not mixed,
            lease=not mixed,
            gather_bytes=_GATHER,
            commit_delay=_COMMIT_DELAY,
            max_uncommitted_entries=1 << 40,  # the broker limits the sends that wait
        )


def parse_peers(text: str) -> dict[str, str]:
    """`n0-host:port;n1-host:port` as addresses by id.

    >>> parse_peers("n0-127.0.0.1:40911;n1-b-host:40912")
    {'n0': '127.0.0.1:40911', 'n1': 'b-host:40912'}
    """
    return {part.partition("-")[0]: part.partition("-")[2] for part in text.split(";") if part}
