"""Commands over sockets: asyncio around `ariane.protocol`.

A `Server` and a `Client` carry requests in both directions over `Connection`s, plain or TLS on the same port.
"""

from ariane.remoting.address import format_address, parse_address
from ariane.remoting.client import Client
from ariane.remoting.connection import Connection, Handler
from ariane.remoting.gates import Gate, Observer, Peer, RpcHook
from ariane.remoting.guard import Limits
from ariane.remoting.server import Server
from ariane.remoting.sockets import SocketOptions
from ariane.remoting.tls import TlsClient, TlsMode, TlsServer

__all__ = [
    "Client",
    "Connection",
    "Gate",
    "Handler",
    "Limits",
    "Observer",
    "Peer",
    "RpcHook",
    "Server",
    "SocketOptions",
    "TlsClient",
    "TlsMode",
    "TlsServer",
    "format_address",
    "parse_address",
]
