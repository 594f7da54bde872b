"""Frames: the encoding of commands on a connection. A frame is a head, a header and a body."""

from collections.abc import Iterator
from types import FunctionType
from typing import Final

from ariane.errors import ProtocolError
from ariane.protocol.command import Command, decode_header, encode_header
from ariane.protocol.fast.decoder import HeaderDecoder
from ariane.protocol.frame_head import HEAD, HEAD_SIZE, MAX_FRAME, bad_frame, framed, read_head
from ariane.protocol.native import i64, read_i32_be

_ANY_SIZE: Final = (1 << 31) - 1


class FrameDecoder:
    """Feed it chunks as they arrive, take whole commands out.

    >>> decoder = FrameDecoder()
    >>> decoder.feed(encode(Command(105, {"topic": "T"}, opaque=7)))
    >>> [command.fields for command in decoder.commands()]
    [{'topic': 'T'}]
    """

    __slots__ = ("_buffer", "_error", "_have", "_headers", "_late", "_max_frame", "_need", "splits")

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._buffer = b""
        self._late: list[bytes] = []  # chunks received while the frame is known to be incomplete
        self._have = 0
        self._need = HEAD_SIZE
        self._error: ProtocolError | None = None
        self._max_frame = max_frame
        self._headers = HeaderDecoder()
        self.splits = 0
        """Grows whenever commands are decoded: while it does not, pending bytes belong to the same frame."""

    def feed(self, chunk: bytes) -> None:
        """Take in bytes as they arrive."""
        self._have += len(chunk)
        if self._have >= self._need and not self._late:
            self._buffer = self._buffer + chunk if self._buffer else chunk
        else:
            self._late.append(chunk)

    @property
    def pending(self) -> int:
        """Bytes of a frame that has not arrived whole yet."""
        return self._have

    def clear(self) -> None:
        """Drop all received bytes; nothing can be read afterwards."""
        self._error = self._error or ProtocolError("the connection is closed")
        self._buffer = b""
        self._late = []
        self._have = 0

    def commands(self) -> Iterator[Command]:
        """Every command that is whole; raises ProtocolError at the first bad one, after which nothing can be read."""
        while commands := self.take():
            yield from commands

    def take(self) -> list[Command]:
        """The whole commands at hand, none when bytes are missing. Commands before a bad frame come out first."""
        if self._error is not None:
            raise self._error
        found: list[Command] = []
        if self._have < self._need:
            return found
        if self._late:
            self._buffer = b"".join([self._buffer, *self._late])
            self._late = []
        try:
            self._split(found)
        except ProtocolError as error:
            self._error = error
            if not found:
                raise
        return found

    def _split(self, found: list[Command]) -> None:
        headers = self._headers
        buffer = self._buffer
        size: i64 = len(buffer)
        at: i64 = 0
        need: i64 = HEAD_SIZE
        while size - at >= HEAD_SIZE:
            length, mark = _head_at(buffer, at)
            header_length = mark & 0xFFFFFF
            if length < 4 or length > self._max_frame or header_length > length - 4:
                raise bad_frame(length, header_length, self._max_frame)
            end = at + 4 + length
            if end > size:
                need = 4 + length
                break
            body_at = at + HEAD_SIZE + header_length
            command = headers.decode(mark >> 24, buffer[at + HEAD_SIZE : body_at])
            if body_at < end:
                command.body = buffer[body_at:end]
            found.append(command)
            at = end
        if at:
            self._buffer = buffer[at:]
            self.splits += 1
        self._have = size - at
        self._need = need


def _head_at(buffer: bytes, at: i64) -> tuple[i64, i64]:
    if PLAIN:
        head: tuple[int, int] = HEAD.unpack_from(buffer, at)
        return head
    return i64(read_i32_be(buffer, at)), i64(read_i32_be(buffer, at + 4)) & 0xFFFFFFFF


PLAIN: Final = isinstance(_head_at, FunctionType)
"""Whether this module is not compiled."""


def encode(command: Command) -> bytes:
    """The whole frame of a command."""
    return encode_head(command, len(command.body)) + command.body


def encode_head(command: Command, body_length: int) -> bytes:
    """Everything before the body, for a body that is sent without a copy."""
    return framed(encode_header(command), command.serialization, body_length)


def decode_head(frame: bytes) -> Command:
    """The command at the beginning of a frame, without its body."""
    serialization, header_length, _ = read_head(frame, _ANY_SIZE)
    return decode_header(serialization, frame[HEAD_SIZE : HEAD_SIZE + header_length])
