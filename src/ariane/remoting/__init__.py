"""Commands over sockets: asyncio around `ariane.protocol`.

server, client    listen and connect; both send and receive requests over connections
connection        one socket: requests and responses in both directions
incoming          its receiving side: read cycles, handlers, requests that run, back-pressure
outgoing          its sending side: one write for all responses of a read, congestion
endpoint          what the connections of one server or client share
waiters           pending requests and their deadlines
gates             gates (refuse requests), observers (see all), hooks of clients
limits            the table of all limits, and the count of what each refused
guard, admission  limits of time and memory, and of connections; limited_log bounds the log lines that peers cause
blocking          connections without an event loop
tls, certificates, tls_properties    TLS on the same port
address, sockets  addresses and socket options
"""

from ariane.remoting.address import format_address, parse_address
from ariane.remoting.client import Client
from ariane.remoting.connection import Connection, Handler
from ariane.remoting.gates import ACCOUNT, Gate, Observer, Peer, RpcHook, account_of
from ariane.remoting.guard import Limits
from ariane.remoting.limits import LimitExceeded, Reason, Refusals
from ariane.remoting.server import Server
from ariane.remoting.sockets import SocketOptions
from ariane.remoting.tls import TlsClient, TlsMode, TlsServer

__all__ = [
    "ACCOUNT",
    "Client",
    "Connection",
    "Gate",
    "Handler",
    "LimitExceeded",
    "Limits",
    "Observer",
    "Peer",
    "Reason",
    "Refusals",
    "RpcHook",
    "Server",
    "SocketOptions",
    "TlsClient",
    "TlsMode",
    "TlsServer",
    "account_of",
    "format_address",
    "parse_address",
]
