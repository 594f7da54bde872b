"""The one tree of errors. A caller decides by type; the text says what happened and what to do next."""


class ArianeError(Exception):
    """Root of everything Ariane raises on purpose."""


class ProtocolError(ArianeError):
    """Bytes from a peer break the protocol; the connection they came on must be closed."""


class RemotingError(ArianeError):
    """A request could not be carried to a peer and back."""


class ConnectFailed(RemotingError):
    """No connection to the peer: nothing was sent."""


class ListenFailed(RemotingError):
    """The address is not free or not ours to listen on; the text names it."""


class SendFailed(RemotingError):
    """The connection broke while the request was on its way: it may or may not have arrived."""


class RequestTimeout(RemotingError):
    """The peer did not answer within the time allowed."""


class TooManyRequests(RemotingError):
    """More requests wait for an answer than the caller allowed."""


class ResponseError(ArianeError):
    """The peer answered with an error code.

    Raised by clients for a code they received, and by handlers for a code they answer with.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{remark} (response code {int(code)})")
        self.code = int(code)
        self.remark = remark


class StoreError(ArianeError):
    """The store cannot do what was asked."""


class ConfigError(ArianeError):
    """A configuration value is unknown, malformed or out of range; the text names file, line and key."""
