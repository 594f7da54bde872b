"""The name and addresses of this machine."""

import os
import socket
import struct
from ipaddress import ip_address, ip_network

from ariane.settings import Host

_SIOCGIFADDR = 0x8915
_DOCKER_BRIDGE = ip_network("172.17.0.0/16")


def this_host() -> Host:
    """The facts that defaults of the configuration depend on."""
    return Host.of(os.environ, host_name=socket.gethostname(), address=own_address(), processors=os.cpu_count() or 1)


def own_address() -> str:
    """The first address of this machine that others could reach, or loopback."""
    for address in _interface_addresses():
        if not ip_address(address).is_loopback:
            return address
    return "127.0.0.1"


def _interface_addresses() -> list[str]:
    try:
        import fcntl

        names = [name for _, name in socket.if_nameindex()]
    except (ImportError, OSError):  # no such calls here, or a sandbox without AF_NETLINK
        return socket.gethostbyname_ex(socket.gethostname())[2]
    addresses: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for name in names:
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name[:15].encode()))
            except OSError:
                continue  # an interface without an IPv4 address
            addresses.append(socket.inet_ntoa(answer[20:24]))
    return addresses


def is_unspecified(address: str) -> bool:
    """Whether it means all addresses of this machine, such as 0.0.0.0."""
    try:
        return ip_address(address.strip("[]")).is_unspecified
    except ValueError:
        return not address


def advertised(listen: str) -> str:
    """The address to tell clients of a server that listens there."""
    return own_address() if is_unspecified(listen) else listen


def local_address(listen: str) -> str:
    """The address at which this machine itself reaches a server that listens there."""
    if not is_unspecified(listen):
        return listen
    return "::1" if ":" in listen else "127.0.0.1"


def reach_warning(address: str, option: str) -> str | None:
    """A warning if other machines cannot reach the advertised address."""
    try:
        ip = ip_address(address.strip("[]"))
    except ValueError:
        return None  # a name: whether it resolves elsewhere cannot be known here
    if ip.is_loopback:
        return f"{address} is reachable from this machine only; say another with {option}"
    if ip.is_unspecified or ip.is_link_local or ip.is_multicast:
        return f"{address} is not an address that clients can connect to; say another with {option}"
    if ip in _DOCKER_BRIDGE:
        return f"{address} looks like a container's own address; clients outside need the host's, given by {option}"
    return None
