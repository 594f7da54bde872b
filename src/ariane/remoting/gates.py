"""Gates, observers and hooks: extension points around the handling of requests and responses.

A gate may refuse a request before its handler runs, whatever its code; access control is one. An observer sees every
request, refused ones too, and every response, also those that a handler encodes itself. Neither may change what it
sees, so both work with the fast path. A hook of a client may change the requests that it sends.
"""

from typing import Any, Final, Protocol

from ariane.protocol.command import Command
from ariane.remoting.address import parse_address

ACCOUNT: Final = "account"
"""The connection attribute in which access control stores the account of the last accepted request."""


class Peer(Protocol):
    """The connection of a request, as gates and observers see it."""

    peer: str
    """`host:port` of the peer."""
    peer_host: bytes
    """The same in the packed form of message units."""
    secure: bool
    """Whether the connection is encrypted."""
    attributes: dict[str, Any]
    """Attributes that a gate stores with the connection."""


def account_of(peer: Peer) -> str:
    """The owner charged for what a request creates: the account, or the address of a peer without one."""
    account = peer.attributes.get(ACCOUNT)
    return f"account {account}" if account else f"address {parse_address(peer.peer)[0]}"


class Gate(Protocol):
    """Decides whether a request reaches its handler."""

    def check(self, peer: Peer, request: Command) -> None:
        """Raise ResponseError to refuse the request; any other exception refuses it too, and is logged.

        `request.wire_fields()` and `request.body` are what the peer sent, as a signature needs them. A refused
        one-way request is dropped.
        """
        ...


class Observer(Protocol):
    """Watches requests and responses. An exception is logged and changes nothing."""

    def requested(self, peer: Peer, request: Command) -> None:
        """Called before gates and handler."""
        ...

    def answered(self, peer: Peer, request: Command, response: Command, body_size: int) -> None:
        """Called when a response is handed to the connection.

        The body of a response to a pull is not in `response.body`: it is sent directly from the store.
        """
        ...


class RpcHook(Protocol):
    """Sees every request that a client sends and its response; it may change the request, to sign it for example."""

    def before_request(self, peer: str, command: Command) -> None:
        """Called before the request is encoded."""
        ...

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """Called when the response has arrived."""
        ...
