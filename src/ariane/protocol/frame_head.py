"""The head of a frame: 8 bytes before the header.

length i32 (of all that follows it) | serialisation u8 | header length u24
"""

from struct import Struct
from typing import Final

from ariane.errors import ProtocolError

MAX_FRAME: Final = 16 * 1024 * 1024
"""The longest frame that peers accept by default."""
HEAD_SIZE: Final = 8
HEAD: Final = Struct(">iI")  # length, serialisation << 24 | header length


def framed(header: bytes, serialization: int, body_length: int = 0) -> bytes:
    """A header as the beginning of a frame whose body has `body_length` bytes."""
    size = len(header)
    return HEAD.pack(4 + size + body_length, serialization << 24 | size) + header


def read_head(frame: bytes | bytearray, max_frame: int = MAX_FRAME) -> tuple[int, int, int]:
    """Serialisation, bytes of header and bytes of body of a frame; ProtocolError when they do not fit each other."""
    head: tuple[int, int] = HEAD.unpack_from(frame)
    length, header_length = head[0], head[1] & 0xFFFFFF
    if length < 4 or length > max_frame or header_length > length - 4:
        raise bad_frame(length, header_length, max_frame)
    return head[1] >> 24, header_length, length - 4 - header_length


def bad_frame(length: int, header_length: int, max_frame: int) -> ProtocolError:
    """The error for a head whose lengths do not fit each other, or that announces too long a frame."""
    return ProtocolError(f"bad frame: length {length}, header {header_length}, limit {max_frame}")
