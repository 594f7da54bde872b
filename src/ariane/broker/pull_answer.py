"""The answer to a pull that found messages, whose header is always the same text around five numbers."""

from typing import Final

from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import JSON, RESPONSE, Command, encode_header
from ariane.protocol.frame import framed
from ariane.store import GetStatus

_MARKS: Final = (111111111, 222222222, 333333333, 444444444, 555555555)  # stand where the numbers will


def pull_fields(broker_id: int, next_offset: int, min_offset: int, max_offset: int) -> dict[str, str]:
    """The header of any answer to a pull."""
    return {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
    }


def _template() -> bytes:
    command = Command(ResponseCode.SUCCESS, pull_fields(*_MARKS[1:]), opaque=_MARKS[0], flag=RESPONSE)
    command.remark = GetStatus.FOUND.value
    text = encode_header(command)
    for mark in _MARKS:
        text = text.replace(b"%d" % mark, b"%d")
    return text


_TEMPLATE: Final = _template()


def found_head(opaque: int, broker_id: int, next_offset: int, low: int, high: int, length: int) -> bytes:
    """All of the frame that stands before `length` bytes of messages; its header is JSON.

    >>> found_head(7, 0, 32, 0, 100, 5000)[8:]  # behind the lengths
    b'{"code":0,"flag":1,"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407,\
"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"32","minOffset":"0","maxOffset":"100"},"remark":"FOUND"}'
    """
    return framed(_TEMPLATE % (opaque, broker_id, next_offset, low, high), JSON, length)
