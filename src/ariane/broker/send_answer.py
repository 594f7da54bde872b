"""The answer to a send, which for one broker is always the same text around four values."""

from typing import Final

from ariane.message import MSG_REGION, TRACE_ON
from ariane.protocol.command import JSON, RESPONSE, Command, encode_header
from ariane.protocol.frame import framed

_MARKS: Final = ("111111111", "222222222", "333333333", "444444444")  # stand where the values will
_OPAQUE: Final = int(_MARKS[0])


class SendAnswer:
    """Makes answers as commands, or at once as the bytes of a frame for a client that speaks JSON.

    >>> SendAnswer("r", False).encoded(7, "AB", 3, 9)[8:]  # behind the lengths
    b'{"code":0,"flag":1,"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407,\
"extFields":{"MSG_REGION":"r","TRACE_ON":"false","msgId":"AB","queueId":"3","queueOffset":"9"}}'
    """

    def __init__(self, region: str, trace_on: bool) -> None:
        self._always: dict[str, str] = {MSG_REGION: region, TRACE_ON: "true" if trace_on else "false"}
        fields = self.fields(_MARKS[1], int(_MARKS[2]), int(_MARKS[3]))
        text = encode_header(Command(0, fields, opaque=_OPAQUE, flag=RESPONSE)).replace(b"%", b"%%")
        for mark in _MARKS:
            before, _, after = text.rpartition(mark.encode())  # a region of such digits stands before the values
            text = before + b"%b" + after if mark == _MARKS[1] else before + b"%d" + after
        self._template = text
        self._single = text.replace(b"%b", b"%b%016X")

    def fields(self, message_id: str, queue_id: int, queue_offset: int) -> dict[str, str]:
        """The header of the answer."""
        values = {"msgId": message_id, "queueId": str(queue_id), "queueOffset": str(queue_offset)}
        return {**self._always, **values}

    def encoded(self, opaque: int, message_id: str, queue_id: int, queue_offset: int) -> bytes:
        """The whole frame; its header is JSON."""
        return framed(self._template % (opaque, message_id.encode(), queue_id, queue_offset), JSON)

    def encoded_single(self, opaque: int, host: bytes, physical: int, queue_id: int, queue_offset: int) -> bytes:
        """The same for one message, whose id is the broker's host in hexadecimal and a commitlog offset."""
        return framed(self._single % (opaque, host, physical, queue_id, queue_offset), JSON)
