"""Headers that are nearly the same as one before.

A producer's JSON headers differ from one message to the next in five places: topic, queue, time, properties and opaque;
a consumer's in queue, two offsets and opaque. Of a header that was decoded in full the text between those places is
remembered; the next one is compared with it, and only what differs is read. Whatever does not fit to the letter is left
to the general way.
"""

from abc import ABC, abstractmethod
from types import FunctionType
from typing import Final

from ariane.errors import ResponseError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.fast.matching import stands_at
from ariane.protocol.fast.property_form import PropertyForm, form_of
from ariane.protocol.fast.pulling import Pulling, PullKind, pulling_of
from ariane.protocol.fast.sending import TRANSACTION, Sending, SendKind, kind_of, name_bit
from ariane.protocol.headers.consume import PullMessageRequest
from ariane.protocol.headers.send import SendMessageRequestV2
from ariane.protocol.native import BytesWriter, i64, u8

_SEND_PLACES: Final = [b'"b":"', b'"e":"', b'"g":"', b'"i":"', b'"opaque":']  # in the order in which clients write them
_PULL_PLACES: Final = [b'"queueId":"', b'"queueOffset":"', b'"commitOffset":"', b'"opaque":']  # in any order
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_SHAPED: Final = (int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE), _PULL)
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_U: Final = ord("u")
_ZERO: Final = ord("0")
_BEHIND_NAME: Final = 1  # the separator; the other one stands behind a value
_LONGEST_NAME: Final = len(TRANSACTION)
_MOST: Final = 8  # shapes of one connection: topics, mostly
_PATIENCE: Final = 256  # headers of no known shape, after which no more is hoped for

_MAX_I32: Final = (1 << 31) - 1


class Shape(ABC):
    """The text of one header between the places where others differ, and what of its command stays the same."""

    def __init__(self, parts: list[bytes], command: Command) -> None:
        self._parts = parts
        self._code = command.code
        self._flag = command.flag
        self._language = command.language
        self._version = command.version
        self._at: i64 = 0

    @abstractmethod
    def read(self, header: bytes) -> Command | None:
        """The command of a header of this shape; None for any other."""

    def _command(self, opaque: int, header: bytes) -> Command:
        return Command(
            self._code, opaque=opaque, flag=self._flag, language=self._language, version=self._version, raw=header
        )

    def _follows(self, header: bytes, place: int) -> bool:
        """Step over the text before a place, if it is there."""
        part = self._parts[place]
        if not stands_at(part, header, self._at):
            return False
        self._at += len(part)
        return True

    def _ends(self, header: bytes) -> bool:
        last = self._parts[-1]
        return self._at + len(last) == len(header) and stands_at(last, header, self._at)

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


class SendShape(Shape):
    """A send; `kind` is what the first of this shape was decoded to."""

    def __init__(self, parts: list[bytes], command: Command, kind: SendKind) -> None:
        super().__init__(parts, command)
        self._kind = kind
        self._topic_text = kind.topic.encode()
        self._text = b""
        self._names = 0
        self._writer = BytesWriter()
        self._form: PropertyForm | None = None
        self._used: PropertyForm | None = None  # the form that the properties had which were just read
        self._forms = 0

    def read(self, header: bytes) -> Command | None:
        self._at = 0
        if not self._topic(header):
            return None
        queue_id = self._number(header, 1)
        if queue_id < 0 or queue_id > _MAX_I32:
            return None
        born = self._number(header, 2)
        if born < 0 or not self._properties(header):
            return None
        opaque = self._number(header, 4)
        if opaque < 0 or opaque > _MAX_I32 or not self._ends(header):
            return None
        command = self._command(opaque, header)
        command.sending = Sending(self._kind, queue_id, born, self._text, self._names, self._used)
        return command

    def _topic(self, header: bytes) -> bool:
        """The topic, if all of it is ASCII and nothing is escaped. One that differs is the next one's to begin with."""
        if not self._follows(header, 0):
            return False
        size: i64 = len(header)
        start = self._at
        at = start + len(self._topic_text)
        if at < size and header[at] == _QUOTE and stands_at(self._topic_text, header, start):
            self._at = at
            return True
        at = start
        while at < size:
            byte: i64 = header[at]
            if byte == _QUOTE:
                break
            if byte < 32 or byte > 126 or byte == _BACKSLASH:
                return False
            at += 1
        self._at = at
        self._topic_text = header[start:at]
        self._kind = self._kind.to(self._topic_text.decode())
        return True

    def _properties(self, header: bytes) -> bool:
        """The properties at their place, by the form of those before or else byte by byte."""
        if not self._follows(header, 3):
            return False
        form = self._form
        start = self._at
        end = -1 if form is None else form.read(header, start)
        if form is not None and end > 0:
            self._at = end
            self._names = form.names
            self._used = form
            return True
        self._used = None
        if not self._unescaped(header):
            return False
        if self._forms < _PATIENCE:
            self._forms += 1
            self._form = form_of(header[start : self._at + 1], self._text, self._names)
        return True

    def _unescaped(self, header: bytes) -> bool:
        """The text at its place, if all of it is ASCII and nothing but the two separators is escaped."""
        size: i64 = len(header)
        at = self._at
        text = self._writer
        text.truncate(0)
        name = at
        names: i64 = 0
        while at < size:
            byte: i64 = header[at]
            if byte == _QUOTE:
                self._at = at
                self._text = text.getvalue()
                self._names = names
                return True
            if byte < 32 or byte > 126:
                return False
            if byte == _BACKSLASH:
                byte = _separator(header, at, size)
                if byte < 0:
                    return False
                if byte == _BEHIND_NAME:
                    if name <= at <= name + _LONGEST_NAME:
                        names |= name_bit(header[name:at])
                    name = size
                else:
                    name = at + 6
                at += 5
            text.append(u8(byte))
            at += 1
        return False


class PullShape(Shape):
    """A pull; `kind` is what the first of this shape was decoded to, `order` says which number stands where."""

    def __init__(self, parts: list[bytes], command: Command, kind: PullKind, order: list[int]) -> None:
        super().__init__(parts, command)
        self._kind = kind
        self._queue_at, self._offset_at, self._commit_at, self._opaque_at = order

    def read(self, header: bytes) -> Command | None:
        self._at = 0
        queue_id: i64 = -1
        offset: i64 = -1
        commit: i64 = -1
        opaque: i64 = -1
        for place in range(len(self._parts) - 1):
            value = self._number(header, place)
            if place == self._queue_at:
                queue_id = value
            elif place == self._offset_at:
                offset = value
            elif place == self._commit_at:
                commit = value
            else:
                opaque = value
            if value < 0:
                return None
        if queue_id > _MAX_I32 or opaque > _MAX_I32 or not self._ends(header):
            return None
        command = self._command(opaque, header)
        command.pulling = Pulling(self._kind, queue_id, offset, commit)
        return command


def _separator(header: bytes, at: i64, size: i64) -> i64:
    """What the escape at this place stands for, if that is one of the two separators; else -1."""
    if at + 6 > size or header[at + 1] != _U or header[at + 2] != _ZERO or header[at + 3] != _ZERO:
        return -1
    last: i64 = header[at + 5] - _ZERO
    return last if header[at + 4] == _ZERO and (last == 1 or last == 2) else -1


def shape_of(header: bytes, command: Command) -> Shape | None:
    """The shape of a header that was decoded to `command`, if it has one."""
    try:
        if command.code == _PULL:
            return _pull_shape(header, command)
        return _send_shape(header, command)
    except (ResponseError, UnicodeEncodeError):  # its sender will hear of it
        return None


def _send_shape(header: bytes, command: Command) -> Shape | None:
    parts = _parts(header, _SEND_PLACES)
    return None if parts is None else SendShape(parts, command, kind_of(command.parsed(SendMessageRequestV2)))


def _pull_shape(header: bytes, command: Command) -> Shape | None:
    found = [header.find(name) for name in _PULL_PLACES]
    ordered = sorted(found)
    if ordered[0] < 0:
        return None
    order = [ordered.index(at) for at in found]
    parts = _parts(header, [_PULL_PLACES[found.index(at)] for at in ordered])
    if parts is None:
        return None
    return PullShape(parts, command, pulling_of(command.parsed(PullMessageRequest)).kind, order)


def _parts(header: bytes, places: list[bytes]) -> list[bytes] | None:
    """The text between the values at these places, which must come in this order."""
    parts: list[bytes] = []
    at = 0
    for name in places:
        found = header.find(name, at)
        if found < 0:
            return None
        start = found + len(name)
        parts.append(header[at:start])
        at = _end_of_value(header, start)
        if at < 0:
            return None
    parts.append(header[at:])
    return parts


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
        if PLAIN or command.code not in _SHAPED or command.remark is not None or self._missed > _PATIENCE:
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
