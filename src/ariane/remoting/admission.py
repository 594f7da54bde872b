"""Decides whether a new connection is accepted: by the number of all, and of those from the same address."""

from collections import Counter
from ipaddress import IPv6Address

from ariane.remoting.guard import Limits
from ariane.remoting.limits import Reason

RESERVED_FILES = 2048  # descriptors reserved for the store, at most a quarter of all


def open_files_max() -> int | None:
    """How many files and sockets this process may open; None where that is not limited."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class Admission:
    """Counts the connections of a server, or of several that share the limits.

    One address gets nine tenths of all connections at most, so that it cannot lock the others out.
    """

    def __init__(self, connections: int, per_address: int, open_files: int | None = None) -> None:
        if open_files is not None:  # a process without descriptors can neither accept nor open its files
            connections = min(connections, open_files - min(RESERVED_FILES, open_files // 4))
        self.most = max(connections, 1)
        self.most_per_address = max(min(per_address, self.most * 9 // 10), 1)
        self._count = 0
        self._by_network: Counter[str] = Counter()

    @classmethod
    def of(cls, limits: Limits) -> "Admission":
        """Build it from the limits of a server, capped by the descriptors of this process."""
        return cls(limits.connections, limits.connections_per_address, open_files_max())

    @property
    def count(self) -> int:
        """The connections that are open."""
        return self._count

    def enter(self, host: str) -> Reason | None:
        """Count a connection from a host; the reason when it must be refused instead."""
        network = network_of(host)
        if self._by_network[network] >= self.most_per_address:
            return Reason.CONNECTIONS_PER_ADDRESS
        if self._count >= self.most:
            if not self._by_network[network]:
                del self._by_network[network]
            return Reason.CONNECTIONS
        self._count += 1
        self._by_network[network] += 1
        return None

    def leave(self, host: str) -> None:
        """Count the close of an accepted connection."""
        network = network_of(host)
        self._count -= 1
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]


def network_of(host: str) -> str:
    """The key that limits per address use: an IPv4 address, or a /64 network of IPv6, which one host may own.

    >>> network_of("10.0.0.7"), network_of("2001:db8::1"), network_of("::ffff:10.0.0.7")
    ('10.0.0.7', '2001:db8::/64', '10.0.0.7')
    """
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"
