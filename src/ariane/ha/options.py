"""Options of replication."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Literal

ReportKind = Literal["auto", "flushed", "received"]
TruncateWhen = Literal["promoted", "always", "never"]


@dataclass(frozen=True, kw_only=True)
class HaOptions:
    """Options of both sides, checked when created; times are seconds, sizes are bytes.

    >>> HaOptions(cluster="c", broker="b", in_sync_replicas=0)
    Traceback (most recent call last):
    ValueError: in_sync_replicas must be at least 1, not 0
    """

    cluster: str
    broker: str
    """The names of cluster and broker, which an Ariane slave must share with its master."""
    heartbeat_interval: float = 5.0
    """haSendHeartbeatInterval: the longest silence of either side."""
    housekeeping_interval: float = 20.0
    """haHousekeepingInterval: a peer silent for longer is dropped."""
    connect_timeout: float = 5.0
    retry_interval: float = 0.5
    """The first pause before a slave connects again; it doubles up to `retry_interval_max`."""
    retry_interval_max: float = 5.0
    handshake_timeout: float = 2.0
    """How long a slave waits for an answer to the handshake before it treats the master as Apache's."""
    transfer_batch: int = 32 << 10
    """haTransferBatchSize: the most log bytes in one frame."""
    transfer_budget: int = 0
    """maxHaTransferByteInSecond: bytes a second to all slaves together; 0: no limit."""
    fall_behind_max: int = 256 << 20
    """haSlaveFallbehindMax: a slave further behind is not in sync, and no send waits for it."""
    slave_timeout: float = 3.0
    """slaveTimeout: how long a send waits for its copies."""
    in_sync_replicas: int = 1
    """Copies, the master's included, that a send of a SYNC_MASTER waits for. 1 and 2 mean one slave, as in RocketMQ."""
    min_in_sync_replicas: int = 1
    """With fewer copies in sync, sends are refused."""
    auto_in_sync_replicas: bool = False
    """enableAutoInSyncReplicas: wait only for slaves that are in sync, down to `min_in_sync_replicas` copies."""
    confirmed_reads: bool = False
    """Limit readers to messages that the required number of copies has."""
    report: ReportKind = "auto"
    """What a slave reports: what it has flushed, or what it has received. `auto`: flushed to an Ariane master."""
    truncate: TruncateWhen = "promoted"
    """When a slave truncates bytes that its master does not have: if the master was promoted, always, or never."""
    learner: bool = False
    """asyncLearner: a slave whose copy never counts."""
    key: str = field(default="", repr=False)
    """A shared secret; a peer that cannot prove that it has it is refused unless `allowed` names it."""
    allowed: tuple[str, ...] = ()
    """Addresses or networks of slaves; empty: any. With a key, these may follow without it (Apache's slaves)."""
    max_connections: int = 64
    from_last_file: bool = False
    """syncFromLastFile: an empty slave gets the last file of the log only, as from Apache's master."""

    def __post_init__(self) -> None:
        for name in (
            "transfer_batch",
            "fall_behind_max",
            "in_sync_replicas",
            "min_in_sync_replicas",
            "max_connections",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("heartbeat_interval", "housekeeping_interval", "slave_timeout", "retry_interval"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than zero, not {getattr(self, name)}")
        if self.report not in ("auto", "flushed", "received"):
            raise ValueError(f"report must be auto, flushed or received, not {self.report!r}")
        if self.truncate not in ("promoted", "always", "never"):
            raise ValueError(f"truncate must be promoted, always or never, not {self.truncate!r}")
        if self.transfer_budget < 0:
            raise ValueError(f"transfer_budget must not be negative, not {self.transfer_budget}")
        for network in self.allowed:
            ip_network(network, strict=False)  # ValueError names what is wrong

    @property
    def slaves_needed(self) -> int:
        """How many slaves must have a message before its send is acknowledged."""
        return max(self.in_sync_replicas - 1, 1)

    def allows(self, host: str) -> bool:
        """Whether `allowed` names a host."""
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        networks: list[IPv4Network | IPv6Network] = [ip_network(name, strict=False) for name in self.allowed]
        return any((mapped or address) in network for network in networks)
