"""Gates, observers and hooks: what stands between a request and its handler, and what watches both ways.

A gate may refuse a request before its handler runs, whatever its code; access control is one. An observer sees every
request, refused ones too, and every response, also those that a handler encodes itself. Neither may change what it
sees, so that neither switches the fast path off. A hook of a client may change the requests that it sends.
"""

from typing import Any, Protocol

from ariane.protocol.command import Command


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
