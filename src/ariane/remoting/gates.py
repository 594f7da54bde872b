"""Gates, observers and hooks: what stands between a request and its handler, and what watches both ways.

A gate may refuse a request before its handler runs, whatever its code; access control is one. An observer sees every
request, refused ones too, and every response, also those that a handler encodes itself. Neither may change what it
sees, so that neither switches the fast path off. A hook of a client may change the requests that it sends.
"""

from typing import Any, Final, Protocol

from ariane.protocol.command import Command
from ariane.remoting.address import parse_address

ACCOUNT: Final = "account"
"""The attribute of a connection in which access control notes the account of the last request that it let through."""


class Peer(Protocol):
    """What gates and observers know of the connection that a request came on."""

    peer: str
    """`host:port` of the peer."""
    peer_host: bytes
    """The same packed, as message units have it."""
    secure: bool
    """Whether the connection is encrypted."""
    attributes: dict[str, Any]
    """Room for what a gate wants to remember of the connection."""


def account_of(peer: Peer) -> str:
    """Whom to charge for what a request creates: the account, or the address of a peer without one."""
    account = peer.attributes.get(ACCOUNT)
    return f"account {account}" if account else f"address {parse_address(peer.peer)[0]}"


class Gate(Protocol):
    """Decides whether a request reaches its handler."""

    def check(self, peer: Peer, request: Command) -> None:
        """Raise ResponseError to refuse the request; any other exception refuses it too, and is logged.

        `request.wire_fields()` and `request.body` are what the peer sent, as a signature needs them. A one-way request
        that is refused vanishes.
        """
        ...


class Observer(Protocol):
    """Watches requests and responses. An exception is logged and changes nothing."""

    def requested(self, peer: Peer, request: Command) -> None:
        """Called before gates and handler."""
        ...

    def answered(self, peer: Peer, request: Command, response: Command, body_size: int) -> None:
        """Called when a response is handed to the connection.

        The body of a response to a pull is not in `response.body`: it leaves from where it is stored.
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
