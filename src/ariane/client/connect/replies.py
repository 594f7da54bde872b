"""Requests of this client that wait for the reply of a consumer, by correlation id."""

import asyncio

from ariane.errors import ReplyTimeout
from ariane.message import CORRELATION_ID, ReceivedMessage


class Replies:
    """The futures of replies; a broker brings a reply as a request of its own."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def expect(self, correlation_id: str) -> asyncio.Future[ReceivedMessage]:
        """Register a request; returns the future of its reply."""
        future: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    def forget(self, correlation_id: str) -> None:
        """Remove a request whose reply is no longer awaited."""
        self._waiting.pop(correlation_id, None)

    def take(self, message: ReceivedMessage) -> bool:
        """Resolve the future of a reply; False when no request waits for it."""
        future = self._waiting.pop(message.properties.get(CORRELATION_ID, ""), None)
        if future is None or future.done():
            return False
        future.set_result(message)
        return True

    def close(self) -> None:
        """Fail all requests that still wait."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ReplyTimeout("the client was closed before the reply came"))
