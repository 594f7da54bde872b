"""Reading the body of a request."""

import logging
from typing import TypeVar

from ariane.errors import ProtocolError, ResponseError
from ariane.protocol.bodies import Body
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command

log = logging.getLogger("ariane.broker")

B = TypeVar("B", bound=Body)


def body_of(kind: type[B], request: Command) -> B:
    """Decode the request's body. A missing or malformed one is logged in one line and answered with SYSTEM_ERROR."""
    try:
        return kind.decode_request(request.body)
    except (ProtocolError, RecursionError) as error:
        reason = str(error) if isinstance(error, ProtocolError) else "nested too deep"
    log.warning("request %d refused: bad body of %d bytes: %s", request.code, len(request.body), reason)
    raise ResponseError(ResponseCode.SYSTEM_ERROR, f"bad request body: {reason}")
