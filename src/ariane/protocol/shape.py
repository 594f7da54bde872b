"""Headers that are nearly the same as one before.

A producer's JSON headers differ from one message to the next in four places: queue, time, properties and opaque. Of a
header that was decoded in full the text between those places is remembered; the next one is compared with it, and only
what differs is read. Whatever does not fit to the letter is left to the general way.
"""

from types import FunctionType
from typing import Final

from ariane.errors import ResponseError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers.send import SendMessageRequestV2
from ariane.protocol.native import i64
from ariane.protocol.sending import Sending, sending_of

_PLACES: Final = (b'"e":"', b'"g":"', b'"i":"', b'"opaque":')  # in the order in which clients write them
_SENDS: Final = (int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE))
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_MOST: Final = 8  # shapes of one connection: topics, mostly
_PATIENCE: Final = 256  # headers of no known shape, after which no more is hoped for

_MAX_I32: Final = (1 << 31) - 1


class Shape:
    """One header with its four places; `sending` and `command` are what it was decoded to."""

    def __init__(self, parts: list[bytes], sending: Sending, command: Command) -> None:
        self._parts = parts
        self._sending = sending
        self._code = command.code
        self._flag = command.flag
        self._language = command.language
        self._version = command.version
        self._at: i64 = 0
        self._text = b""

    def read(self, header: bytes) -> Command | None:
        """The command of a header of this shape; None for any other."""
        self._at = 0
        queue_id = self._number(header, 0)
        if queue_id < 0 or queue_id > _MAX_I32:
            return None
        born = self._number(header, 1)
        if born < 0 or not self._properties(header):
            return None
        opaque = self._number(header, 3)
        if opaque < 0 or opaque > _MAX_I32 or header[self._at :] != self._parts[4]:
            return None
        command = Command(
            self._code, opaque=opaque, flag=self._flag, language=self._language, version=self._version, raw=header
        )
        command.sending = self._sending.again(queue_id, born, self._text)
        return command

    def _follows(self, header: bytes, place: int) -> bool:
        """Step over the text before a place, if it is there."""
        part = self._parts[place]
        end = self._at + len(part)
        if header[self._at : end] != part:
            return False
        self._at = end
        return True

    def _number(self, header: bytes, place: int) -> i64:
        """The digits at a place; -1 when there are none, or too many."""
        if not self._follows(header, place):
            return -1
        size: i64 = len(header)
        start = self._at
        at = start
        value: i64 = 0
        while at < size and 48 <= header[at] <= 57:
            value = value * 10 + header[at] - 48
            at += 1
            if at - start > 18:
                return -1
        self._at = at
        return value if at > start else -1

    def _properties(self, header: bytes) -> bool:
        """The text at its place, if all of it is ASCII and nothing but the two separators is escaped."""
        if not self._follows(header, 2):
            return False
        size: i64 = len(header)
        at = self._at
        start = at
        pieces: list[bytes] = []
        while at < size:
            byte: i64 = header[at]
            if byte == _QUOTE:
                pieces.append(header[start:at])
                self._at = at
                self._text = b"".join(pieces)
                return True
            if byte < 32 or byte > 126:
                return False
            if byte == _BACKSLASH:
                escaped = header[at + 1 : at + 6]
                if escaped != b"u0001" and escaped != b"u0002":
                    return False
                pieces.append(header[start:at])
                pieces.append(b"\x01" if escaped == b"u0001" else b"\x02")
                at += 5
                start = at + 1
            at += 1
        return False


def shape_of(header: bytes, command: Command) -> Shape | None:
    """The shape of a header that was decoded to `command`, if it has one."""
    parts: list[bytes] = []
    at = 0
    for name in _PLACES:
        found = header.find(name, at)
        if found < 0:
            return None
        start = found + len(name)
        parts.append(header[at:start])
        at = _end_of_value(header, start)
        if at < 0:
            return None
    parts.append(header[at:])
    try:
        return Shape(parts, sending_of(command.parsed(SendMessageRequestV2)), command)
    except (ResponseError, UnicodeEncodeError):  # its sender will hear of it
        return None


def _end_of_value(header: bytes, start: int) -> int:
    """Where the text or the number that begins at `start` ends; -1 when it does not."""
    if header[start - 1] == _QUOTE:
        return header.find(b'"', start)
    at = start
    while header[at : at + 1].isdigit():
        at += 1
    return at


class Shapes:
    """The shapes that one connection's headers had."""

    def __init__(self) -> None:
        self._last: Shape | None = None
        self._known: list[Shape] = []
        self._missed = 0

    def read(self, header: bytes) -> Command | None:
        """The command of a header whose shape is known."""
        last = self._last
        if last is None:
            return None
        command = last.read(header)
        return self._read_any(header) if command is None else command

    def _read_any(self, header: bytes) -> Command | None:
        for shape in self._known:
            if shape is not self._last:
                command = shape.read(header)
                if command is not None:
                    self._last = shape
                    return command
        return None

    def learn(self, header: bytes, command: Command) -> None:
        """A header of no known shape was decoded; remember its shape, unless that has helped too rarely."""
        if PLAIN or command.code not in _SENDS or command.remark is not None or self._missed > _PATIENCE:
            return
        self._missed += 1
        if self._missed > _PATIENCE:
            self._last = None
            self._known.clear()
        elif len(self._known) < _MOST:
            shape = shape_of(header, command)
            if shape is not None and shape.read(header) is not None:
                self._known.append(shape)
                self._last = shape


PLAIN: Final = isinstance(shape_of, FunctionType)
"""Whether this module is not compiled; then a decoder written in C costs less than a look at each byte."""
