"""The answers to a send: for a stored message, and with RocketMQ's error text for one that was not stored."""

from pathlib import Path
from types import FunctionType
from typing import Final

from librt.strings import BytesWriter

from ariane.broker.config.live import LiveOptions
from ariane.env import Files
from ariane.errors import ResponseError
from ariane.message import MSG_REGION, TRACE_ON
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import JSON, RESPONSE, Command, encode_header
from ariane.protocol.fast.digits import set_head, write_decimal, write_hexadecimal
from ariane.protocol.frame_head import HEAD_SIZE, framed
from ariane.store import PutStatus

_MARKS: Final = ("111111111", "222222222", "333333333", "444444444")  # replaced by the values
_OPAQUE: Final = int(_MARKS[0])
_COMMA: Final = ord(",")
_CODES: Final = {
    PutStatus.OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_TOO_LONG: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}


class SendAnswer:
    """Builds the answers to stored messages, either as fields or as the bytes of a JSON frame.

    For one broker this is always the same text around four values.

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
        self._opening = bytes(HEAD_SIZE) + self._opening  # the lengths are known when everything is written
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


def response_code(status: PutStatus) -> int:
    """The code that answers a put."""
    return _CODES.get(status, ResponseCode.SYSTEM_ERROR)


class PutFailures:
    """Builds the error answers to puts that failed."""

    def __init__(self, options: LiveOptions, files: Files) -> None:
        self._options = options
        self._files = files

    def of(self, status: PutStatus) -> ResponseError:
        """The error that answers a put with this status."""
        return ResponseError(response_code(status), self._remark(status))

    def _remark(self, status: PutStatus) -> str:
        if status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_TOO_LONG):
            return (
                "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
                f"{self._options.current.max_message_size}B, msg properties length limit 32KB."
            )
        if status is PutStatus.SERVICE_NOT_AVAILABLE:
            used = self._files.usage(Path(self._options.current.store_path_root_dir)).used_ratio
            disk = f"CL: {used:5.2f} CQ: {used:5.2f} INDEX: {used:5.2f}"
            return (
                "service not available now. It may be caused by one of the following reasons: "
                f"the broker's disk is full [{disk}], messages are put to the slave, "
                "message store has been shut down, etc."
            )
        if status is PutStatus.CREATE_FILE_FAILED:
            return "create mapped file failed, server is busy or broken."
        if status is PutStatus.OS_PAGE_CACHE_BUSY:
            return "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
        return str(status.value)
