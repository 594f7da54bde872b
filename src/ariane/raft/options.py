"""Options of a group. Times are in any unit, the same as the times given to `Node.tick`; milliseconds by custom."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Options:
    """Timings and limits, checked when they are made. Timings must be the same on all members.

    >>> Options(heartbeat_interval=150, election_timeout=200)
    Traceback (most recent call last):
    ValueError: election_timeout must be at least twice heartbeat_interval (300), not 200
    """

    heartbeat_interval: int = 150
    election_timeout: int = 1000  # minimum; each election draws between once and twice this
    pre_vote: bool = True  # off where members do not know pre-votes (Apache's)
    lease: bool = True  # off where members vote while they hear a leader (Apache's): no `lease_end` then
    lease_margin: int = 200  # shortens the lease by the clock drift in one election time-out
    max_batch_entries: int = 1024
    max_batch_bytes: int = 1 << 20  # a single larger entry is sent alone
    max_inflight_entries: int = 8192
    max_inflight_bytes: int = 8 << 20
    gather_bytes: int = 0  # while a member owes an answer, less than this waits for it: one sync stores more entries
    commit_delay: int = 0  # how long news of a commit may wait for entries to travel with
    max_uncommitted_entries: int = 10_000
    cached_entries: int = 4096  # newest entries kept in memory; older ones are read from the driver

    def __post_init__(self) -> None:
        if self.heartbeat_interval < 1:
            raise ValueError(f"heartbeat_interval must be at least 1, not {self.heartbeat_interval}")
        if self.election_timeout < 2 * self.heartbeat_interval:
            raise ValueError(
                "election_timeout must be at least twice heartbeat_interval "
                f"({2 * self.heartbeat_interval}), not {self.election_timeout}"
            )
        if not 0 <= self.lease_margin < self.election_timeout:
            raise ValueError(f"lease_margin must be less than election_timeout, not {self.lease_margin}")
        for name in ("max_batch_entries", "max_batch_bytes", "max_inflight_entries", "max_inflight_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.gather_bytes < 0 or self.commit_delay < 0:
            raise ValueError("gather_bytes and commit_delay must not be negative")
        if self.max_uncommitted_entries < 1 or self.cached_entries < 1:
            raise ValueError("max_uncommitted_entries and cached_entries must be at least 1")
