"""Requests as Apache's Java client writes them, made beforehand."""

from struct import Struct

import msgspec

from ariane.protocol.batch import BatchItem, encode_batch
from ariane.protocol.codes import RequestCode
from ariane.protocol.signing import ACCESS_KEY, SIGNATURE, sign

BODY = b"x" * 128
_HEAD = Struct(">ii")


def send_frame(number: int, topic: str, queue: int, body: bytes = BODY, keys: tuple[str, str] | None = None) -> bytes:
    """SEND_MESSAGE_V2 of one message, signed when there are an access key and a secret key."""
    fields = _send_fields(topic, queue, _properties(number), "false")
    if keys is not None:
        fields[ACCESS_KEY] = keys[0]
        fields[SIGNATURE] = sign(keys[1], fields, body)
    return _frame(RequestCode.SEND_MESSAGE_V2, fields, body, number)


def batch_frame(topic: str, number: int, body: bytes, count: int) -> bytes:
    """SEND_BATCH_MESSAGE of `count` messages to queue 0."""
    items = [BatchItem(0, body, _properties(number * count + n).encode()) for n in range(count)]
    fields = _send_fields(topic, 0, "WAIT\x01true\x02", "true")
    return _frame(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(items), number)


def pull_frame(topic: str, number: int, offset: int, count: int = 32) -> bytes:
    """PULL_MESSAGE of up to `count` messages of queue 0."""
    fields = {
        "commitOffset": "0", "consumerGroup": "bench-consumer", "expressionType": "TAG", "maxMsgNums": str(count),
        "queueId": "0", "queueOffset": str(offset), "subVersion": "0", "subscription": "*",
        "suspendTimeoutMillis": "15000", "sysFlag": "6", "topic": topic,
    }  # fmt: skip
    return _frame(RequestCode.PULL_MESSAGE, fields, b"", number)


def _properties(number: int) -> str:
    return f"UNIQ_KEY\x017F0000010000{number:020X}\x02WAIT\x01true\x02"


def _send_fields(topic: str, queue: int, properties: str, batch: str) -> dict[str, str]:
    return {
        "a": "bench-producer", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1700000000000",
        "h": "0", "i": properties, "j": "0", "k": "false", "m": batch,
    }  # fmt: skip


def _frame(code: int, fields: dict[str, str], body: bytes, opaque: int) -> bytes:
    header = msgspec.json.encode({
        "code": int(code), "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON", "version": 407,
    })  # fmt: skip
    return _HEAD.pack(4 + len(header) + len(body), len(header)) + header + body
