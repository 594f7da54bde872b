"""Clients of other languages as the tests' peers: Apache's Go client, and its C++ client inside a Python wheel.

Each is a process that takes one JSON request a line and answers with one JSON line; `Peer` talks to either.
"""

from tests.interop.other_clients.missing import PeerMissing
from tests.interop.other_clients.peer import Consumer, Peer, PeerRefused, Producer

__all__ = ["Consumer", "Peer", "PeerMissing", "PeerRefused", "Producer"]
