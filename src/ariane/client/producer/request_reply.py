"""Request and reply over messages: a request names the client that waits, a broker brings the reply to it."""

import asyncio

from ariane.errors import ClientError, ReplyTimeout
from ariane.message import (
    CLUSTER,
    CORRELATION_ID,
    MESSAGE_TYPE,
    REPLY_TO_CLIENT,
    REPLY_TOPIC_SUFFIX,
    TTL,
    Message,
    ReceivedMessage,
)

REPLY = "reply"


class Replies:
    """Requests that wait for their replies, by correlation id."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def expect(self, correlation_id: str) -> asyncio.Future[ReceivedMessage]:
        """The future of a reply."""
        future: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    def forget(self, correlation_id: str) -> None:
        """Nobody waits any more."""
        self._waiting.pop(correlation_id, None)

    def take(self, message: ReceivedMessage) -> bool:
        """Hand a reply to whoever waits for it; False when nobody does."""
        future = self._waiting.pop(message.properties.get(CORRELATION_ID, ""), None)
        if future is None or future.done():
            return False
        future.set_result(message)
        return True

    def close(self) -> None:
        """Nobody will get a reply any more."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ReplyTimeout("the client was closed before the reply came"))


def as_request(message: Message, correlation_id: str, client_id: str, timeout: float) -> Message:
    """The message with what a replier must know."""
    more = {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(int(timeout * 1000))}
    return Message.with_properties(message.topic, message.body, message.properties | more, message.flag)


def reply_to(request: ReceivedMessage, body: bytes) -> Message:
    """The reply to a request that a consumer got.

    A request that does not say where it came from is no request: ClientError.
    """
    cluster = request.properties.get(CLUSTER)
    if cluster is None or REPLY_TO_CLIENT not in request.properties:
        raise ClientError(f"message {request.message_id} is no request: it names no cluster and client to reply to")
    names = (CORRELATION_ID, REPLY_TO_CLIENT, TTL)
    properties = {name: request.properties[name] for name in names if name in request.properties}
    return Message.with_properties(f"{cluster}_{REPLY_TOPIC_SUFFIX}", body, {MESSAGE_TYPE: REPLY, **properties})
