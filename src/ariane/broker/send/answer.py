"""The answer to a send: for one broker always the same text around four values."""

from types import FunctionType
from typing import Final

from librt.strings import BytesWriter

from ariane.message import MSG_REGION, TRACE_ON
from ariane.protocol.command import JSON, RESPONSE, Command, encode_header
from ariane.protocol.fast.digits import set_head, write_decimal, write_hexadecimal
from ariane.protocol.frame_head import HEAD_SIZE, framed

_MARKS: Final = ("111111111", "222222222", "333333333", "444444444")  # replaced by the values
_OPAQUE: Final = int(_MARKS[0])
_COMMA: Final = ord(",")


class SendAnswer:
    """Builds answers, either as fields or as the bytes of a JSON frame.

    >>> SendAnswer("r", False).encoded(7, b"AB", [255], 3, 9)[8:]  # after the lengths
    b'{"code":0,"flag":1,"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407,\
"extFields":{"MSG_REGION":"r","TRACE_ON":"false","msgId":"AB00000000000000FF","queueId":"3","queueOffset":"9"}}'
    """

    def __init__(self, region: str, trace_on: bool) -> None:
        self._always: dict[str, str] = {MSG_REGION: region, TRACE_ON: "true" if trace_on else "false"}
        fields = self.fields(_MARKS[1], int(_MARKS[2]), int(_MARKS[3]))
        text = encode_header(Command(0, fields, opaque=_OPAQUE, flag=RESPONSE))
        # Only the region can contain the same digits: the opaque is before it, the other values are after it.
        self._opening, _, rest = text.partition(_MARKS[0].encode())
        rest, _, self._closing = rest.rpartition(_MARKS[3].encode())
        rest, _, self._before_offset = rest.rpartition(_MARKS[2].encode())
        self._before_id, _, self._before_queue = rest.rpartition(_MARKS[1].encode())
        parts = (self._opening, self._before_id, self._before_queue, self._before_offset, self._closing)
        opening, before_id, before_queue, before_offset, closing = (part.replace(b"%", b"%%") for part in parts)
        self._opening = bytes(HEAD_SIZE) + self._opening  # the head is known when all is written
        self._writer = BytesWriter()
        self._template = opening + b"%d" + before_id + b"%b" + before_queue + b"%d" + before_offset + b"%d" + closing

    def fields(self, message_id: str, queue_id: int, queue_offset: int) -> dict[str, str]:
        """The header of the answer."""
        values = {"msgId": message_id, "queueId": str(queue_id), "queueOffset": str(queue_offset)}
        return {**self._always, **values}

    def encoded(self, opaque: int, host: bytes, places: list[int], queue_id: int, queue_offset: int) -> bytes:
        """The whole frame with a JSON header. A message id is the broker's host in hexadecimal and the log offset."""
        if PLAIN:
            ids = b",".join([b"%b%016X" % (host, place) for place in places])
            return framed(self._template % (opaque, ids, queue_id, queue_offset), JSON)
        writer = self._begin(opaque, host, places[0])
        for place in places[1:]:
            writer.append(_COMMA)
            writer.write(host)
            write_hexadecimal(writer, place)
        return self._end(queue_id, queue_offset)

    def encoded_one(self, opaque: int, host: bytes, place: int, queue_id: int, queue_offset: int) -> bytes:
        """Like `encoded`, for one message."""
        if PLAIN:
            return framed(self._template % (opaque, b"%b%016X" % (host, place), queue_id, queue_offset), JSON)
        self._begin(opaque, host, place)
        return self._end(queue_id, queue_offset)

    def _begin(self, opaque: int, host: bytes, place: int) -> BytesWriter:
        writer = self._writer
        writer.truncate(0)
        writer.write(self._opening)
        write_decimal(writer, opaque)
        writer.write(self._before_id)
        writer.write(host)
        write_hexadecimal(writer, place)
        return writer

    def _end(self, queue_id: int, queue_offset: int) -> bytes:
        writer = self._writer
        writer.write(self._before_queue)
        write_decimal(writer, queue_id)
        writer.write(self._before_offset)
        write_decimal(writer, queue_offset)
        writer.write(self._closing)
        set_head(writer, 0)
        return writer.getvalue()


PLAIN: Final = isinstance(SendAnswer.encoded, FunctionType)
"""True when this module is not compiled: then one format costs less than many calls."""
