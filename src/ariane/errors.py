"""All errors of Ariane. Callers decide by type; the text tells what happened and what to do next."""


class ArianeError(Exception):
    """The base of all errors that Ariane raises."""


class ProtocolError(ArianeError):
    """Bytes from a peer break the protocol; the connection they came on must be closed."""


class TooLarge(ProtocolError):
    """Data from a peer would have more bytes decompressed than are allowed; it was not decompressed further."""


class RemotingError(ArianeError):
    """A request got no response."""


class ConnectFailed(RemotingError):
    """The peer could not be connected to: nothing was sent."""


class ListenFailed(RemotingError):
    """The address to listen on is taken or not allowed; the text names it."""

    def __init__(self, text: str, port: int = 0) -> None:
        super().__init__(text)
        self.port = port


class SendFailed(RemotingError):
    """The connection was lost during a request, which may or may not have arrived."""


class RequestTimeout(RemotingError):
    """The peer did not answer within the time allowed."""


class TooManyRequests(RemotingError):
    """More requests are pending than the caller allowed."""


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


class ConfigError(ArianeError, ValueError):
    """An invalid configuration; the text names file, line and key, and suggests a known name.

    >>> str(ConfigError("unknown option", key="brokerNmae", file="broker.conf", line=3, suggestion="brokerName"))
    'broker.conf:3: brokerNmae: unknown option; did you mean brokerName?'
    """

    def __init__(
        self,
        reason: str,
        *,
        key: str = "",
        file: str = "",
        line: int = 0,
        suggestion: str | None = None,
    ) -> None:
        self.reason = reason
        self.key = key
        self.file = file
        self.line = line
        self.suggestion = suggestion
        super().__init__(self._text())

    def _text(self) -> str:
        where = f"{self.file}:{self.line}" if self.file and self.line else self.file
        parts = [part for part in (where, self.key, self.reason) if part]
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return ": ".join(parts) + hint

    def at(self, file: str, line: int) -> "ConfigError":
        """The same error with its place in a file."""
        return type(self)(self.reason, key=self.key, file=file, line=line, suggestion=self.suggestion)


class ClientError(ArianeError):
    """A producer, consumer or admin client cannot do what was asked."""


class NotRunning(ClientError):
    """The client was not started yet, or is closed already."""


class ForkedClient(NotRunning):
    """The client was started before the process forked: make a new one in the child."""


class BufferFull(ClientError, BufferError):
    """More messages are on their way than the producer allows; this one was not sent."""


class InvalidMessage(ClientError):
    """The message breaks a rule that every broker has; nothing was sent."""


class RouteMissing(ClientError):
    """No name server knows a broker that serves the topic."""


class NameServersUnreachable(ClientError):
    """None of the name servers answered."""


class SendForbidden(ClientError):
    """A check-forbidden hook refused the message; nothing was sent."""


class SendError(ClientError):
    """Every attempt to send failed; `causes` has the error of each, `sent` the parts of a batch that were stored."""

    def __init__(self, text: str, causes: tuple[Exception, ...] = (), sent: tuple[object, ...] = ()) -> None:
        super().__init__(text)
        self.causes = causes
        self.sent = sent


class ReplyTimeout(ClientError, TimeoutError):
    """The request was sent, but no consumer replied in time."""


class GuaranteeError(ArianeError):
    """The business guarantee cannot do what was asked: a stub, an option or the database forbids it."""


class BrokerRefused(ResponseError):
    """A server answered with an error code; the text names the server, what was asked and what to do."""

    def __init__(self, code: int, remark: str, address: str, text: str) -> None:
        super().__init__(code, remark)
        self.address = address
        self._text = text

    def __str__(self) -> str:
        return self._text


class AccessDenied(BrokerRefused):
    """The access key is missing, unknown, wrongly signed, or not permitted to do this."""
