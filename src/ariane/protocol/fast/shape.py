"""The shape of a header: the constant text between the places (variable parts).

A producer's JSON headers differ from one message to the next in five places: topic, queue, time, properties and opaque;
a consumer's in queue, two offsets and opaque. A shape is made of a header that was decoded in full. The next header is
compared with the text, and only the places are parsed. A header that does not match byte for byte has another shape.
"""

from abc import ABC, abstractmethod
from types import FunctionType
from typing import Final

from ariane.errors import ResponseError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command, SignedText
from ariane.protocol.fast.matching import stands_at
from ariane.protocol.fast.property_form import PropertyForm, form_of
from ariane.protocol.fast.pulling import Pulling, PullKind, pulling_of
from ariane.protocol.fast.sending import LONGEST_NAME, Sending, SendKind, kind_of, name_bit
from ariane.protocol.headers.consume import PullMessageRequest
from ariane.protocol.headers.send import SendMessageRequestV2
from ariane.protocol.native import BytesWriter, i64, u8
from ariane.protocol.signing import ACCESS_KEY, SIGNATURE, UNSIGNED

_SEND_PLACES: Final = [b'"b":"', b'"e":"', b'"g":"', b'"i":"', b'"opaque":']  # in the order in which clients write them
_SEND_PROBE: Final = [b"probe", b"1234567", b"7654321", b"", b"424242"]  # other values for these places
_PULL_PLACES: Final = [b'"queueId":"', b'"queueOffset":"', b'"commitOffset":"', b'"opaque":']  # in any order
_PULL_PROBE: Final = [b"1234567", b"7654321", b"313131", b"424242"]
_SEND_SIGNED: Final = ["b", "e", "g", "i"]  # the fields at these places, in the order of their names
_PULL_SIGNED: Final = ["commitOffset", "queueId", "queueOffset"]
_SIGNATURE_NAME: Final = b'"Signature":"'
_SIGNATURE_SIZE: Final = 28  # Base64 of 20 bytes
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_U: Final = ord("u")
_ZERO: Final = ord("0")
_AFTER_NAME: Final = 1  # the separator after a property's name; the other one comes after its value
_MAX_FORMS: Final = 256  # forms of properties that are tried; then each is read byte by byte
_MAX_I32: Final = (1 << 31) - 1


class Shape(ABC):
    """The constant text of a header between its places, and the constant fields of its command."""

    def __init__(self, parts: list[bytes], probe: list[bytes], command: Command) -> None:
        self._parts = parts
        self._probe = probe
        self._code = command.code
        self._flag = command.flag
        self._language = command.language
        self._version = command.version
        self._at: i64 = 0
        self._number_at: i64 = 0  # where the digits that `_number` read begin
        self._hole_place: i64 = -1  # of the part that the signature is in, if any
        self._before_hole = b""
        self._after_hole = b""
        self._signature = b""  # as `_follows` or `_ends` found it
        self._access_key = ""
        self._constants: list[bytes] = []  # signed values before, between and after those that differ

    def sign(self, fields: dict[str, str], varying: list[str]) -> bool:
        """Treat the signature as one more place. `varying` names the fields at the other places, in signed order.

        False when these fields have no signature of the usual form, or not where it is expected.
        """
        signature = fields.get(SIGNATURE, "")
        mark = _SIGNATURE_NAME + signature.encode()
        found = [place for place, part in enumerate(self._parts) if mark in part]
        if len(signature) != _SIGNATURE_SIZE or len(found) != 1 or self._parts[found[0]].count(_SIGNATURE_NAME) != 1:
            return False
        constants = [""]
        left = list(varying)
        for name in sorted(name for name in fields if name not in UNSIGNED):
            if left and name == left[0]:
                left.pop(0)
                constants.append("")
            else:
                constants[-1] += fields[name]
        if left:
            return False
        part = self._parts[found[0]]
        start = part.find(_SIGNATURE_NAME) + len(_SIGNATURE_NAME)
        self._hole_place = found[0]
        self._before_hole = part[:start]
        self._after_hole = part[start + _SIGNATURE_SIZE :]
        self._access_key = fields.get(ACCESS_KEY, "")
        self._constants = [text.encode() for text in constants]
        return True

    @abstractmethod
    def read(self, header: bytes) -> Command | None:
        """The command of a header of this shape, with the parsed values as `typed`; None for any other header."""

    def probe(self) -> bytes:
        """A header of this shape with other values at each place.

        The general decoder must find these values too. It does not when the name of a place occurs twice, or escaped:
        JSON takes the last occurrence, a shape reads the first.
        """
        mixed = [piece for pair in zip(self._parts, self._probe, strict=False) for piece in pair]
        return b"".join([*mixed, self._parts[-1]])

    def _command(self, opaque: int, header: bytes, typed: object, signed: SignedText | None) -> Command:
        return Command(
            self._code,
            opaque=opaque,
            flag=self._flag,
            language=self._language,
            version=self._version,
            typed=typed,
            raw=header,
            signed=signed,
        )

    def _follows(self, header: bytes, place: i64) -> bool:
        """Skip the constant text before a place, if it matches."""
        if place == self._hole_place:
            return self._passes_signature(header)
        part = self._parts[place]
        if not stands_at(part, header, self._at):
            return False
        self._at += len(part)
        return True

    def _passes_signature(self, header: bytes) -> bool:
        """Skip a part that contains the signature, and keep the signature."""
        start = self._at + len(self._before_hole)
        end = start + _SIGNATURE_SIZE
        if not stands_at(self._before_hole, header, self._at) or not stands_at(self._after_hole, header, end):
            return False
        at = start
        while at < end:
            byte: i64 = header[at]
            if not (97 <= byte <= 122 or 65 <= byte <= 90 or 47 <= byte <= 57 or byte == 43 or byte == 61):
                return False
            at += 1
        self._signature = header[start:end]
        self._at = end + len(self._after_hole)
        return True

    def _ends(self, header: bytes) -> bool:
        last: i64 = len(self._parts) - 1
        return self._follows(header, last) and self._at == len(header)

    def _number(self, header: bytes, place: int) -> i64:
        """The digits at a place; -1 when there are none, too many, or a leading zero, which JSON forbids."""
        if not self._follows(header, place):
            return -1
        size: i64 = len(header)
        start = self._at
        self._number_at = start
        at = start
        value: i64 = 0
        while at < size and 48 <= header[at] <= 57:
            value = value * 10 + header[at] - 48
            at += 1
            if at - start > 18:
                return -1
        self._at = at
        if at == start or (at > start + 1 and header[start] == _ZERO):
            return -1
        return value


class SendShape(Shape):
    """A send; `kind` is what the first of this shape was decoded to."""

    def __init__(self, parts: list[bytes], command: Command, kind: SendKind) -> None:
        super().__init__(parts, _SEND_PROBE, command)
        self._kind = kind
        self._topic = kind.topic.encode()
        self._writer = BytesWriter()
        self._form: PropertyForm | None = None
        self._forms = 0

    def read(self, header: bytes) -> Command | None:
        self._at = 0
        size: i64 = len(header)

        # The topic, if it is ASCII without escapes. A different one is expected in the next header too.
        if not self._follows(header, 0):
            return None
        start = self._at
        at = start + len(self._topic)
        if at >= size or header[at] != _QUOTE or not stands_at(self._topic, header, start):
            at = start
            while at < size and header[at] != _QUOTE:
                if header[at] < 32 or header[at] > 126 or header[at] == _BACKSLASH:
                    return None
                at += 1
            self._topic = header[start:at]
            self._kind = self._kind.to(self._topic.decode())
        self._at = at

        queue_id = self._number(header, 1)
        if queue_id < 0 or queue_id > _MAX_I32:
            return None
        queue_at, queue_end = self._number_at, self._at
        born = self._number(header, 2)
        if born < 0:
            return None
        born_at, born_end = self._number_at, self._at

        # The properties, by a known form, or else byte by byte: ASCII, and only separators are escaped.
        if not self._follows(header, 3):
            return None
        text = b""
        names: i64 = 0
        form = self._form
        start = self._at
        at = -1 if form is None else form.read(header, start)
        if form is not None and at > 0:
            names = form.names
        else:
            form = None
            writer = self._writer
            writer.truncate(0)
            at = start
            name = at
            while at < size and header[at] != _QUOTE:
                byte: i64 = header[at]
                if byte < 32 or byte > 126:
                    return None
                if byte == _BACKSLASH:
                    byte = _separator(header, at, size)
                    if byte < 0:
                        return None
                    if byte == _AFTER_NAME:
                        if name <= at <= name + LONGEST_NAME:
                            names |= name_bit(header[name:at])
                        name = size
                    else:
                        name = at + 6
                    at += 5
                writer.append(u8(byte))
                at += 1
            if at >= size:
                return None
            text = writer.getvalue()
            if self._forms < _MAX_FORMS:
                self._forms += 1
                self._form = form_of(header[start : at + 1], text, names)
        self._at = at

        opaque = self._number(header, 4)
        if opaque < 0 or opaque > _MAX_I32 or not self._ends(header):
            return None
        sending = Sending(self._kind, queue_id, born, text, names, form)
        signed: SignedText | None = None
        if self._hole_place >= 0:
            c = self._constants
            covered = self._writer
            covered.truncate(0)
            covered.write(c[0])
            covered.write(self._topic)
            covered.write(c[1])
            covered.write(header[queue_at:queue_end])
            covered.write(c[2])
            covered.write(header[born_at:born_end])
            covered.write(c[3])
            if form is None:
                covered.write(text)
            else:
                form.write(covered, sending.key)
            covered.write(c[4])
            signed = SignedText(self._access_key, self._signature, covered.getvalue())
        return self._command(opaque, header, sending, signed)


class PullShape(Shape):
    """A pull; `kind` is what the first of this shape was decoded to, `order` says which number is at which place."""

    def __init__(
        self, parts: list[bytes], probe: list[bytes], command: Command, kind: PullKind, order: list[int]
    ) -> None:
        super().__init__(parts, probe, command)
        self._kind = kind
        self._queue_at, self._offset_at, self._commit_at, self._opaque_at = order

    def read(self, header: bytes) -> Command | None:
        self._at = 0
        queue_id: i64 = -1
        offset: i64 = -1
        commit: i64 = -1
        opaque: i64 = -1
        is_signed = self._hole_place >= 0
        queue_text = offset_text = commit_text = b""
        for place in range(len(self._parts) - 1):
            value = self._number(header, place)
            if value < 0:
                return None
            if place == self._queue_at:
                queue_id = value
                if is_signed:
                    queue_text = header[self._number_at : self._at]
            elif place == self._offset_at:
                offset = value
                if is_signed:
                    offset_text = header[self._number_at : self._at]
            elif place == self._commit_at:
                commit = value
                if is_signed:
                    commit_text = header[self._number_at : self._at]
            else:
                opaque = value
        if queue_id > _MAX_I32 or opaque > _MAX_I32 or not self._ends(header):
            return None
        signed: SignedText | None = None
        if is_signed:
            c = self._constants
            values = [c[0], commit_text, c[1], queue_text, c[2], offset_text, c[3]]
            signed = SignedText(self._access_key, self._signature, b"".join(values))
        return self._command(opaque, header, Pulling(self._kind, queue_id, offset, commit), signed)


def _separator(header: bytes, at: i64, size: i64) -> i64:
    """The separator of properties that the escape at this place means; -1 when it means another character."""
    if at + 6 > size or header[at + 1] != _U or header[at + 2] != _ZERO or header[at + 3] != _ZERO:
        return -1
    last: i64 = header[at + 5] - _ZERO
    return last if header[at + 4] == _ZERO and (last == 1 or last == 2) else -1


def shape_of(header: bytes, command: Command) -> Shape | None:
    """The shape of a header that was decoded to `command`; None when it has none."""
    is_pull = command.code == _PULL
    names = _PULL_PLACES if is_pull else _SEND_PLACES
    found = [header.find(name) for name in names]
    ordered = sorted(found)
    if ordered[0] < 0 or (not is_pull and ordered != found):
        return None
    order = [ordered.index(at) for at in found]
    parts: list[bytes] = []
    at = 0
    for place in ordered:
        start = place + len(names[found.index(place)])
        parts.append(header[at:start])
        if header[start - 1] == _QUOTE:
            at = header.find(b'"', start)
            if at < 0:
                return None
        else:
            at = start
            while header[at : at + 1].isdigit():
                at += 1
    parts.append(header[at:])
    try:
        shape: Shape
        if is_pull:
            probe = [_PULL_PROBE[order.index(place)] for place in range(len(order))]
            shape = PullShape(parts, probe, command, pulling_of(command.parsed(PullMessageRequest)).kind, order)
        else:
            shape = SendShape(parts, command, kind_of(command.parsed(SendMessageRequestV2)))
        if _SIGNATURE_NAME in header and b"null" not in header:
            shape.sign(command.fields, _PULL_SIGNED if is_pull else _SEND_SIGNED)
        return shape
    except (ResponseError, UnicodeEncodeError):  # the handler answers with the error
        return None


PLAIN: Final = isinstance(shape_of, FunctionType)
"""Whether this module is not compiled; then a decoder written in C costs less than a loop over the bytes."""
