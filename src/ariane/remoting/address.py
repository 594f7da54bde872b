"""Addresses as RocketMQ writes them: `host:port`, with brackets around an IPv6 address."""

from typing import Any

from ariane.errors import ConnectFailed

_MAPPED = "::ffff:"


def parse_address(text: str) -> tuple[str, int]:
    """Split an address into host and port. Java peers write IPv6 without brackets too: the last colon separates.

    >>> parse_address("broker-a:10911"), parse_address("[::1]:9876")
    (('broker-a', 10911), ('::1', 9876))
    """
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConnectFailed(f"{text[:300]!r} is not an address: expected host:port, or [IPv6]:port")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Join host and port to an address.

    >>> format_address("127.0.0.1", 9876), format_address("::1", 9876)
    ('127.0.0.1:9876', '[::1]:9876')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def socket_address(name: Any) -> tuple[str, int]:
    """Host and port of a socket's name; an IPv4-mapped IPv6 address is returned as IPv4."""
    if not isinstance(name, tuple) or len(name) < 2:  # the peer closed before its name was read
        return "0.0.0.0", 0
    host = str(name[0])
    if host.startswith(_MAPPED) and "." in host:
        host = host[len(_MAPPED) :]
    return host, int(name[1])
