"""Messages of request and reply: a request names the waiting client, and a broker pushes the reply to it."""

from ariane.errors import ClientError
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
"""The value of the property MSG_TYPE of a reply."""


def as_request(message: Message, correlation_id: str, client_id: str, timeout: float) -> Message:
    """The message with the properties that a replier needs."""
    more = {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(int(timeout * 1000))}
    return Message.with_properties(message.topic, message.body, message.properties | more, message.flag)


def reply_to(request: ReceivedMessage, body: bytes) -> Message:
    """The reply to a request that a consumer received; ClientError when the message is not a request."""
    cluster = request.properties.get(CLUSTER)
    if cluster is None or REPLY_TO_CLIENT not in request.properties:
        raise ClientError(
            f"message {request.message_id} is not a request: it names no cluster and client to reply to (send it "
            "with Producer.request)"
        )
    names = (CORRELATION_ID, REPLY_TO_CLIENT, TTL)
    properties = {name: request.properties[name] for name in names if name in request.properties}
    return Message.with_properties(f"{cluster}_{REPLY_TOPIC_SUFFIX}", body, {MESSAGE_TYPE: REPLY, **properties})
