"""The complete retry policy of a send.

    call                       attempts            next attempt on    after
    send, send_batch           1 + retries         another broker     an error of `may_retry_elsewhere`; and, with
                                                                      retry_another_broker_when_not_store_ok, a status
                                                                      other than SEND_OK
    submit                     1 + async_retries   the same broker    an error of the connection
    any, with a chosen queue   1                                      (elsewhere the message would be out of order)
    send_oneway                1

One time-out holds for all attempts together. An access denial is never retried: other brokers would deny it too.
"""

from typing import Final

from ariane.env import Clock
from ariane.errors import AccessDenied, ArianeError, BrokerRefused, RemotingError, RouteMissing, SendError
from ariane.protocol.codes import ResponseCode

RETRY_CODES: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
"""Refusals after which another broker is tried."""


def may_retry_elsewhere(error: ArianeError) -> bool:
    """Whether another broker may accept what this one did not."""
    if isinstance(error, AccessDenied):
        return False
    if isinstance(error, BrokerRefused):
        return error.code in RETRY_CODES
    return isinstance(error, RemotingError | RouteMissing)


class Attempts:
    """The attempts of one send: those left, the deadline, and the errors so far."""

    def __init__(self, clock: Clock, timeout: float, most: int, started: float | None = None) -> None:
        self._started = clock.monotonic() if started is None else started
        self._clock = clock
        self._timeout = timeout
        self._left = most
        self._causes: list[Exception] = []

    def time_left(self) -> float:
        """Seconds until the time-out."""
        return self._timeout - (self._clock.monotonic() - self._started)

    def begin(self) -> bool:
        """Begin another attempt; False when no attempt or no time is left."""
        self._left -= 1
        return self._left >= 0 and self.time_left() > 0

    def failed(self, error: ArianeError, *, retry: bool) -> None:
        """Note the error of an attempt; raise it when it is not worth another."""
        if not retry:
            raise error
        self._causes.append(error)

    def exhausted(self, message_id: str, topic: str) -> SendError:
        """The error of the send, with the errors of all attempts."""
        causes, seconds = self._causes, self._clock.monotonic() - self._started
        tries = f"{len(causes)} tries" if len(causes) != 1 else "1 try"
        late = f"; the time-out of {self._timeout:g} s over all tries is up" if seconds >= self._timeout else ""
        reasons = "; ".join(dict.fromkeys(str(cause) for cause in causes)) or "there was no time to try"
        what = f"message {message_id} to {topic} was not stored after {tries} in {seconds:.1f} s"
        error = SendError(f"{what}: {reasons}{late}", tuple(causes))
        error.__cause__ = causes[-1] if causes else None
        return error
