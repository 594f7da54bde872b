"""Reading the body of a request."""

from typing import TypeVar

from ariane.errors import ProtocolError
from ariane.protocol.bodies import Body
from ariane.protocol.command import Command

B = TypeVar("B", bound=Body)


def body_of(kind: type[B], request: Command) -> B:
    """Decode the body. The connection logs a ProtocolError, within its limit, and answers SYSTEM_ERROR."""
    try:
        return kind.decode_request(request.body)
    except (ProtocolError, RecursionError) as error:
        reason = str(error) if isinstance(error, ProtocolError) else "nested too deep"
    raise ProtocolError(f"bad request body: {reason}")
