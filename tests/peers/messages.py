"""What Apache's client reports of messages, queues and sends, as values that compare."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, order=True)
class Queue:
    """A message queue, by the three things that name it."""

    topic: str
    broker: str
    queue_id: int

    @classmethod
    def read(cls, json: Mapping[str, Any]) -> Self:
        """From the driver's JSON."""
        return cls(json["topic"], json["brokerName"], json["queueId"])

    def json(self) -> dict[str, Any]:
        """To the driver's JSON."""
        return {"topic": self.topic, "brokerName": self.broker, "queueId": self.queue_id}


@dataclass(frozen=True)
class SendResult:
    """Apache's SendResult; `index` is the number within a burst. `msg_id` of a batch is a comma list."""

    status: str
    msg_id: str
    offset_msg_id: str | None
    queue: Queue
    queue_offset: int
    transaction_id: str | None
    region_id: str | None
    local_state: str | None
    index: int

    @classmethod
    def read(cls, json: Mapping[str, Any]) -> Self:
        """From the driver's JSON."""
        return cls(
            status=json["status"],
            msg_id=json["msgId"],
            offset_msg_id=json["offsetMsgId"],
            queue=Queue.read(json),
            queue_offset=json["queueOffset"],
            transaction_id=json["transactionId"],
            region_id=json["regionId"],
            local_state=json.get("localState"),
            index=json.get("index", 0),
        )


@dataclass(frozen=True)
class Message:
    """A message as Apache's client decoded it; `raw` has every field, `verdict` what the listener answered."""

    topic: str
    body: bytes
    msg_id: str
    offset_msg_id: str
    tags: str | None
    keys: str | None
    properties: Mapping[str, str]
    queue: Queue
    queue_offset: int
    reconsume_times: int
    verdict: str | None
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, json: Mapping[str, Any]) -> Self:
        """From the driver's JSON."""
        return cls(
            topic=json["topic"],
            body=base64.b64decode(json["body"] or ""),
            msg_id=json["msgId"],
            offset_msg_id=json["offsetMsgId"],
            tags=json["tags"],
            keys=json["keys"],
            properties=json["properties"],
            queue=Queue.read(json),
            queue_offset=json["queueOffset"],
            reconsume_times=json["reconsumeTimes"],
            verdict=json.get("verdict"),
            raw=json,
        )


def outgoing(topic: str, body: bytes | str, **fields: Any) -> dict[str, Any]:
    """A message to send: `tags`, `keys` (string or list), `properties`, `delay_level`, `flag`, `wait_store`."""
    raw = body.encode() if isinstance(body, str) else body
    keys = fields.pop("keys", None)
    names = {"delay_level": "delayLevel", "wait_store": "waitStoreMsgOK"}
    message = {"topic": topic, "body": base64.b64encode(raw).decode()}
    message |= {names.get(name, name): value for name, value in fields.items() if value is not None}
    return message if keys is None else {**message, "keys": keys if isinstance(keys, str) else " ".join(keys)}
