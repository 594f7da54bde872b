"""Sends that reach a DLedger member after it has lost the leadership: it passes them on to the leader for a while.

Apache's client asks for routes each 30 s and at no other time, whatever a broker answers (4.9.7). Without this, its
sends to a deposed leader, or to a killed one that was started again, would fail until then.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ariane.env import Clock
from ariane.errors import ConnectFailed, RemotingError, ResponseError
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.remoting import Client, Connection, Handler

log = logging.getLogger("ariane.broker.send")

FORWARD_FOR: Final = 60.0  # seconds after a start or the end of a leadership: two route polls of Apache's client
PATIENCE: Final = 2.5  # seconds that a send waits for a leader
_STEP: Final = 0.05
_TIMEOUT: Final = 3.0


class Forwarding:
    """Handlers of sends on a member of a group: its own while it is the master, the leader's otherwise."""

    def __init__(
        self, client: Client, clock: Clock, *, leader: Callable[[], str | None], accepts: Callable[[], bool]
    ) -> None:
        """`accepts` says that this member leads. `leader` is the address of the leader's broker.

        It is empty while none is known, and None when the leader is Apache's, whose address members do not know.
        """
        self._client = client
        self._clock = clock
        self._leader = leader
        self._accepts = accepts
        self._until = 0.0
        self.forwarded = 0
        """Sends that the leader has answered."""

    def begin(self) -> None:
        """This member was started, or does not lead any more."""
        self._until = self._clock.monotonic() + FORWARD_FOR

    async def stop(self) -> None:
        """Close the connections to leaders."""
        await self._client.close()

    def around(self, send: Handler) -> Handler:
        """The handler of sends, which are passed on while this member does not lead."""

        def handle(connection: Connection, request: Command) -> Command | Awaitable[Command | None] | None:
            if self._accepts() or self._clock.monotonic() > self._until or self._leader() is None:
                return send(connection, request)
            return self._forward(send, connection, request)

        return handle

    async def _forward(self, send: Handler, connection: Connection, request: Command) -> Command | None:
        """Ask the leader, once there is one. A send that was not stored for certain is tried again."""
        deadline = self._clock.monotonic() + PATIENCE
        while self._clock.monotonic() < deadline and not self._accepts():
            address = self._leader()
            try:
                if address:
                    command = Command(
                        request.code,
                        dict(request.fields),
                        request.body,
                        version=request.version,
                        language=request.language,
                    )
                    if request.is_oneway:
                        await self._client.oneway(address, command)
                        return None
                    answer = await self._client.request(address, command, _TIMEOUT)
                    if answer.code != ResponseCode.SERVICE_NOT_AVAILABLE:
                        self.forwarded += 1
                        return request.reply(answer.code, answer.fields, answer.body, answer.remark)
            except ConnectFailed:
                pass  # nothing was sent
            except RemotingError as error:
                remark = f"the leader {address} did not answer, the message may be stored: {error}"
                raise ResponseError(ResponseCode.SYSTEM_ERROR, remark) from None
            await self._clock.sleep(_STEP)
        answer_here = send(connection, request)
        return await answer_here if isinstance(answer_here, Awaitable) else answer_here
