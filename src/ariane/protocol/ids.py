"""Hosts as bytes, and the two kinds of message id.

The offset id names a position: store host, port and commitlog offset, 32 hex digits (56 for IPv6), set by the broker.
The unique id names a message: host, process, class loader, time and counter, set by the client.
"""

from ipaddress import ip_address
from struct import Struct
from typing import Final

from ariane.errors import ProtocolError

_PORT: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
_UNIQUE_TAIL: Final = Struct(">HIIH")  # process id, class loader hash, milliseconds of the month, counter


def pack_host(address: str, port: int) -> bytes:
    """Pack a host as message units have it: 8 bytes for IPv4, 20 for IPv6.

    >>> pack_host("127.0.0.1", 10911).hex()
    '7f00000100002a9f'
    """
    return ip_address(address.partition("%")[0]).packed + _PORT.pack(port)


def unpack_host(host: bytes) -> tuple[str, int]:
    """Unpack address and port of a host."""
    return str(ip_address(host[:-4])), _PORT.unpack_from(host, len(host) - 4)[0]


def host_text(host: bytes) -> str:
    """Format a packed host as `address:port`."""
    address, port = unpack_host(host)
    return f"{address}:{port}"


def offset_id(store_host: bytes, physical_offset: int) -> str:
    """The offset id of a message: its store host and commitlog offset.

    >>> offset_id(pack_host("127.0.0.1", 10911), 400)
    '7F00000100002A9F0000000000000190'
    """
    return (store_host + _OFFSET.pack(physical_offset)).hex().upper()


def offset_ids(store_host: bytes, physical_offsets: list[int]) -> str:
    """The offset ids of several messages, separated by commas, as in the response to a batch.

    >>> offset_ids(pack_host("127.0.0.1", 10911), [400, 800])
    '7F00000100002A9F0000000000000190,7F00000100002A9F0000000000000320'
    """
    raw = b"".join([store_host + _OFFSET.pack(at) for at in physical_offsets])
    return raw.hex(",", len(store_host) + 8).upper()


def parse_offset_id(text: str) -> tuple[bytes, int]:
    """Decode an offset id to store host and commitlog offset; ProtocolError when it is malformed."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) not in (16, 28):
        raise ProtocolError(f"not an offset message id: {text!r}")
    return raw[:-8], _OFFSET.unpack_from(raw, len(raw) - 8)[0]


def unique_id(address: bytes, process: int, loader: int, elapsed_ms: int, counter: int) -> str:
    """The id that a client gives to a message before it is sent, in RocketMQ's form."""
    tail = _UNIQUE_TAIL.pack(process & 0xFFFF, loader & 0xFFFFFFFF, elapsed_ms & 0xFFFFFFFF, counter & 0xFFFF)
    return (address + tail).hex().upper()
