"""The answer to a pull that found messages: its header is always the same text around five numbers."""

from types import FunctionType
from typing import Final

from librt.strings import BytesWriter

from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import JSON, RESPONSE, Command, encode_header
from ariane.protocol.fast.digits import set_head, write_decimal
from ariane.protocol.frame_head import HEAD_SIZE, framed
from ariane.store import GetStatus

_MARKS: Final = (111111111, 222222222, 333333333, 444444444, 555555555)  # replaced by the numbers


def pull_fields(broker_id: int, next_offset: int, min_offset: int, max_offset: int) -> dict[str, str]:
    """The header of any answer to a pull."""
    return {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
    }


def _pieces() -> list[bytes]:
    """The text around the numbers."""
    command = Command(ResponseCode.SUCCESS, pull_fields(*_MARKS[1:]), opaque=_MARKS[0], flag=RESPONSE)
    command.remark = GetStatus.FOUND.value
    text = encode_header(command)
    pieces: list[bytes] = []
    for mark in _MARKS:
        before, _, text = text.partition(b"%d" % mark)
        pieces.append(before)
    return [*pieces, text]


_PIECES: Final = _pieces()
_TEMPLATE: Final = b"%d".join(_PIECES)
_OPENING: Final = bytes(HEAD_SIZE) + _PIECES[0]  # the lengths are known when everything is written
_writer: Final = BytesWriter()


def found_head(opaque: int, broker_id: int, next_offset: int, low: int, high: int, length: int) -> bytes:
    """The frame up to its body of `length` bytes, with a JSON header.

    >>> found_head(7, 0, 32, 0, 100, 5000)[8:]  # after the lengths
    b'{"code":0,"flag":1,"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407,\
"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"32","minOffset":"0","maxOffset":"100"},"remark":"FOUND"}'
    """
    if PLAIN:
        return framed(_TEMPLATE % (opaque, broker_id, next_offset, low, high), JSON, length)
    writer = _writer
    writer.truncate(0)
    writer.write(_OPENING)
    write_decimal(writer, opaque)
    writer.write(_PIECES[1])
    write_decimal(writer, broker_id)
    writer.write(_PIECES[2])
    write_decimal(writer, next_offset)
    writer.write(_PIECES[3])
    write_decimal(writer, low)
    writer.write(_PIECES[4])
    write_decimal(writer, high)
    writer.write(_PIECES[5])
    set_head(writer, length)
    return writer.getvalue()


PLAIN: Final = isinstance(found_head, FunctionType)
"""True when this module is not compiled: then one format costs less than many calls."""
