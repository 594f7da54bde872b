"""Addresses as RocketMQ writes them: `host:port`, with brackets around an IPv6 address."""

from typing import Any

from ariane.errors import ConnectFailed

_MAPPED = "::ffff:"


def parse_address(text: str) -> tuple[str, int]:
    """Host and port. Java peers also write IPv6 addresses without brackets: the last colon parts.

    >>> parse_address("broker-a:10911"), parse_address("[::1]:9876")
    (('broker-a', 10911), ('::1', 9876))
    """
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConnectFailed(f"{text!r} is not an address: expected host:port, or [IPv6]:port")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """The text of an address.

    >>> format_address("127.0.0.1", 9876), format_address("::1", 9876)
    ('127.0.0.1:9876', '[::1]:9876')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def socket_address(name: Any) -> tuple[str, int]:
    """Host and port of what a socket calls its peer; an IPv4 peer of an IPv6 socket is IPv4."""
    if not isinstance(name, tuple) or len(name) < 2:  # the peer left before anybody could ask
        return "0.0.0.0", 0
    host = str(name[0])
    if host.startswith(_MAPPED) and "." in host:
        host = host[len(_MAPPED) :]
    return host, int(name[1])
