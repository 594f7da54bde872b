"""Decodes the headers of one connection: the same commands as `decode_header`, at less cost for sends and pulls.

A JSON header is tried in this order: by the shapes of headers before it; as a typed header, without a map of texts in
between; by the general decoder. `Command.typed` tells which: a `Sending` or `Pulling`, a typed header, or None.
"""

from typing import Final

import msgspec

from ariane.errors import ProtocolError, ResponseError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import JSON, Command, decode_header
from ariane.protocol.fast.hot_headers import HOT_HEADERS, PREFIX
from ariane.protocol.fast.pulling import pulling_in
from ariane.protocol.fast.sending import sending_in
from ariane.protocol.fast.shape import PLAIN, Shape, shape_of
from ariane.protocol.signing import ACCESS_KEY, SIGNATURE, signed_values

_PULL: Final = int(RequestCode.PULL_MESSAGE)
_SHAPED: Final = (int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE), _PULL)
_MAX_SHAPES: Final = 8  # of one connection: topics, mostly
_MAX_MISSES: Final = 256  # headers without a match after which no more shapes are tried
_LONGEST: Final = 1 << 14  # bytes of a header that a shape is made of: shapes are kept as long as the connection


class HeaderDecoder:
    """The decoder of one connection."""

    def __init__(self) -> None:
        self._last: Shape | None = None
        self._shapes: list[Shape] = []
        self._misses = 0

    def decode(self, serialization: int, header: bytes) -> Command:
        """The command of a header; ProtocolError for anything that is not one."""
        if serialization != JSON:
            return decode_header(serialization, header)
        last = self._last
        if last is not None and len(header) <= _LONGEST:
            command = last.read(header)
            if command is not None:
                return command
            for shape in self._shapes:
                if shape is not last:
                    command = shape.read(header)
                    if command is not None:
                        self._last = shape
                        return command
        command = decode_hot(header)
        if not PLAIN and self._misses <= _MAX_MISSES:
            self._learn(header, command)
        return command

    def _learn(self, header: bytes, command: Command) -> None:
        """Keep the shape of a header that matched none, unless shapes matched too rarely so far."""
        if command.code not in _SHAPED or command.remark is not None or len(header) > _LONGEST:
            return
        self._misses += 1
        if self._misses > _MAX_MISSES:
            self._last = None
            self._shapes.clear()
        elif len(self._shapes) < _MAX_SHAPES:
            shape = shape_of(header, command)
            if shape is not None and is_faithful(shape, header):
                self._shapes.append(shape)
                self._last = shape


def decode_hot(header: bytes) -> Command:
    """The command of a JSON header; `typed` is set for the frequent requests."""
    hot = HOT_HEADERS.get(header[:PREFIX])
    if hot is None:
        return decode_header(JSON, header)
    try:
        if not header.isascii():
            header.decode()  # the names of skipped fields must be text, too
        h = hot(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_header(JSON, header)
    return Command(
        h.code,
        opaque=h.opaque,
        flag=h.flag,
        remark=h.remark,
        language=h.language,
        version=h.version,
        typed=h.extFields,
        raw=header,
    )


def is_faithful(shape: Shape, header: bytes) -> bool:
    """Whether a shape reads the header it was made of, and one with other values, as the general decoder does."""
    try:
        for text in (shape.probe(), header):
            fast, general = shape.read(text), decode_header(JSON, text)
            if fast is None or _values(fast) != _values(general):
                return False
            signed = fast.signed
            if signed is not None:
                credentials = signed.access_key, signed.signature.decode()
                fields = general.wire_fields()
                if credentials != (fields.get(ACCESS_KEY), fields.get(SIGNATURE)):
                    return False
                if signed.text != signed_values(fields):
                    return False
    except (ProtocolError, ResponseError):  # a place is not where a value begins
        return False
    return True


def _values(command: Command) -> tuple[object, ...]:
    asked = pulling_in(command).values() if command.code == _PULL else sending_in(command).values()
    return (*asked, command.code, command.opaque, command.flag, command.remark)
