"""The answer to a send, which for one broker is always the same text around four values."""

from types import FunctionType
from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be

from ariane.message import MSG_REGION, TRACE_ON
from ariane.protocol.command import JSON, RESPONSE, Command, encode_header
from ariane.protocol.frame import framed
from ariane.protocol.native import i16, i32, i64

_MARKS: Final = ("111111111", "222222222", "333333333", "444444444")  # stand where the values will
_OPAQUE: Final = int(_MARKS[0])
_ID_DIGITS: Final = 16  # of a commitlog offset in an id


class SendAnswer:
    """Makes answers as commands, or at once as the bytes of a frame for a client that speaks JSON.

    >>> SendAnswer("r", False).encoded(7, "AB", 3, 9)[8:]  # behind the lengths
    b'{"code":0,"flag":1,"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407,\
"extFields":{"MSG_REGION":"r","TRACE_ON":"false","msgId":"AB","queueId":"3","queueOffset":"9"}}'
    """

    def __init__(self, region: str, trace_on: bool) -> None:
        self._always: dict[str, str] = {MSG_REGION: region, TRACE_ON: "true" if trace_on else "false"}
        fields = self.fields(_MARKS[1], int(_MARKS[2]), int(_MARKS[3]))
        text = encode_header(Command(0, fields, opaque=_OPAQUE, flag=RESPONSE))
        # Only the region and the values can hold such digits: the opaque stands before it, the others behind it.
        self._opening, _, rest = text.partition(_MARKS[0].encode())
        rest, _, self._closing = rest.rpartition(_MARKS[3].encode())
        rest, _, self._before_offset = rest.rpartition(_MARKS[2].encode())
        self._before_id, _, self._before_queue = rest.rpartition(_MARKS[1].encode())
        self._fixed = len(text) - sum(map(len, _MARKS)) + _ID_DIGITS
        self._template = self._format(b"%b")
        self._single = self._format(b"%b%016X")

    def _format(self, message_id: bytes) -> bytes:
        parts = (self._opening, self._before_id, self._before_queue, self._before_offset, self._closing)
        opening, before_id, before_queue, before_offset, closing = (part.replace(b"%", b"%%") for part in parts)
        return opening + b"%d" + before_id + message_id + before_queue + b"%d" + before_offset + b"%d" + closing

    def fields(self, message_id: str, queue_id: int, queue_offset: int) -> dict[str, str]:
        """The header of the answer."""
        values = {"msgId": message_id, "queueId": str(queue_id), "queueOffset": str(queue_offset)}
        return {**self._always, **values}

    def encoded(self, opaque: int, message_id: str, queue_id: int, queue_offset: int) -> bytes:
        """The whole frame; its header is JSON."""
        return framed(self._template % (opaque, message_id.encode(), queue_id, queue_offset), JSON)

    def encoded_single(self, opaque: int, host: bytes, physical: int, queue_id: int, queue_offset: int) -> bytes:
        """The same for one message, whose id is the broker's host in hexadecimal and a commitlog offset."""
        if PLAIN:
            return framed(self._single % (opaque, host, physical, queue_id, queue_offset), JSON)
        texts = (str(opaque).encode(), str(queue_id).encode(), str(queue_offset).encode())
        size = self._fixed + len(texts[0]) + len(texts[1]) + len(texts[2]) + len(host)
        writer = BytesWriter()
        write_i32_be(writer, i32(4 + size))
        write_i32_be(writer, i32(size))  # the serialisation above it is 0, JSON
        writer.write(self._opening)
        writer.write(texts[0])
        writer.write(self._before_id)
        writer.write(host)
        _write_hexadecimal(writer, physical)
        writer.write(self._before_queue)
        writer.write(texts[1])
        writer.write(self._before_offset)
        writer.write(texts[2])
        writer.write(self._closing)
        return writer.getvalue()


def _write_hexadecimal(writer: BytesWriter, value: int) -> None:
    """Sixteen digits, large letters, two at a time."""
    number: i64 = value
    shift: i64 = 56
    while shift >= 0:
        high = number >> shift + 4 & 15
        low = number >> shift & 15
        high += 48 if high < 10 else 55
        low += 48 if low < 10 else 55
        write_i16_be(writer, i16(high << 8 | low))
        shift -= 8


PLAIN: Final = isinstance(_write_hexadecimal, FunctionType)
"""Whether this module is not compiled; then one format costs less than many calls."""
