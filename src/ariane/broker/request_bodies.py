"""Reading the body of a request."""

from typing import TypeVar

from ariane.errors import ProtocolError, ResponseError
from ariane.protocol.bodies import Body
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command

B = TypeVar("B", bound=Body)


def body_of(kind: type[B], request: Command) -> B:
    """The request's body; SYSTEM_ERROR is the answer when it is missing or malformed."""
    try:
        return kind.decode(request.body)
    except ProtocolError as error:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"bad request body: {error}") from None
