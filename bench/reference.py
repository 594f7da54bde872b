"""The yardstick of the guard: a fixed piece of work in plain Python, like the hot path's in kind. Never change it.

The cost of the hot path is given as a multiple of this work's, so that it means the same on a slow machine, under
another build of Python and beside noisy neighbours.
"""

from struct import Struct
from zlib import crc32

_HEAD = Struct(">iIIiiqqiq8sq8siqi")
_TEXT = "UNIQ_KEY\x017F000001000000000000000000000001\x02WAIT\x01true\x02"


class _Message:
    __slots__ = ("body", "crc", "number", "properties", "topic")

    def __init__(self, topic: bytes, body: bytes, properties: bytes, number: int) -> None:
        self.topic = topic
        self.body = body
        self.properties = properties
        self.number = number
        self.crc = crc32(body) & 0x7FFFFFFF


def reference(rounds: int, memory: bytearray) -> int:
    """Do the work so many times; `memory` has at least 64 KiB."""
    at = 0
    table: dict[tuple[str, int], int] = {}
    for number in range(rounds):
        fields = {"topic": "reference", "queue": str(number & 3), "properties": _TEXT}
        message = _Message(fields["topic"].encode(), bytes(128), fields["properties"].encode(), number)
        key = (fields["topic"], int(fields["queue"]))
        table[key] = table.get(key, 0) + 1
        data = _encode(message, table[key])
        if at + len(data) > len(memory):
            at = 0
        memory[at : at + len(data)] = data
        at += len(data)
    return at


def _encode(m: _Message, offset: int) -> bytes:
    head = _HEAD.pack(
        300, 0xDAA320A7, m.crc, 1, 0, offset, m.number, 0, 1_700_000_000_000, b"12345678",
        1_700_000_000_001, b"87654321", 0, 0, len(m.body),
    )  # fmt: skip
    return b"".join((head, m.body, bytes((len(m.topic),)), m.topic, m.properties))
