"""Compression of message bodies, and the limit for decompressed bodies.

zlib is RocketMQ 4's; lz4 and zstd are 5.x's and need the packages `lz4` and `zstandard`.
"""

import zlib
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Final

from ariane.errors import ProtocolError, TooLarge
from ariane.protocol.units import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_TYPE,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)

LARGEST_BODY: Final = 64 << 20
"""Bytes of a decompressed body. A frame has 16 MiB at most; a body far beyond that is a decompression bomb."""

_ZSTD_STEP: Final = 1024  # bytes of input; a block of 4 bytes may become 128 KiB, so a step adds 32 MiB at most


class Compression(Enum):
    """How large bodies are compressed. Only zlib is understood by RocketMQ 4.x; the others need 5.x consumers."""

    ZLIB = "zlib"
    LZ4 = "lz4"
    ZSTD = "zstd"


FLAGS: Final = {
    Compression.ZLIB: COMPRESSED,
    Compression.LZ4: COMPRESSED | COMPRESSION_LZ4,
    Compression.ZSTD: COMPRESSED | COMPRESSION_ZSTD,
}
"""The bits of the sys flag that name the compression."""


def compressor(kind: Compression, level: int) -> Callable[[bytes], bytes]:
    """A function that compresses a body; ProtocolError when the package for it is missing."""
    if kind is Compression.LZ4:
        lz4 = _package("lz4.frame")
        return lambda body: bytes(lz4.compress(body))
    if kind is Compression.ZSTD:
        zstd = _package("zstandard").ZstdCompressor(level=level)
        return lambda body: bytes(zstd.compress(body))
    return lambda body: zlib.compress(body, level)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """The body as it was before compression.

    ProtocolError when it is not compressed as its flag says, would be over LARGEST_BODY, or needs a missing package.
    """
    kind = sys_flag & COMPRESSION_TYPE
    if kind in (0, COMPRESSION_ZLIB):
        return inflate(body)
    if kind == COMPRESSION_LZ4:
        return _decompress_lz4(body)
    if kind == COMPRESSION_ZSTD:
        return _decompress_zstd(body)
    raise ProtocolError(f"the body is compressed by an unknown codec: {kind:#x} of its sys flag")


def inflate(body: bytes, largest: int = LARGEST_BODY) -> bytes:
    """Decompress zlib's format; ProtocolError when it is another one, torn, or over `largest` bytes."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, largest + 1)
    except zlib.error as error:
        raise _not_as_flagged(error) from None
    if len(plain) > largest:
        raise too_large(largest)
    if not stream.eof:
        raise _not_as_flagged("it is torn")
    return plain


def _decompress_lz4(body: bytes) -> bytes:
    stream = _package("lz4.frame").LZ4FrameDecompressor()
    try:
        plain = bytes(stream.decompress(body, max_length=LARGEST_BODY + 1))
    except RuntimeError as error:
        raise _not_as_flagged(error) from None
    if len(plain) > LARGEST_BODY:
        raise too_large(LARGEST_BODY)
    if not stream.eof:
        raise _not_as_flagged("it is torn")
    return plain


def _decompress_zstd(body: bytes) -> bytes:
    zstd = _package("zstandard")
    stream = zstd.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    size = 0
    try:
        for at in range(0, len(body), _ZSTD_STEP):
            part = stream.decompress(body[at : at + _ZSTD_STEP])
            parts.append(part)
            size += len(part)
            if size > LARGEST_BODY:
                raise too_large(LARGEST_BODY)
            if stream.eof:
                return b"".join(parts)
    except zstd.ZstdError as error:
        raise _not_as_flagged(error) from None
    raise _not_as_flagged("it is torn")


def too_large(largest: int) -> TooLarge:
    """The error for a body that decompresses to more than is allowed."""
    return TooLarge(f"the compressed body would have over {largest} bytes")


def _not_as_flagged(why: object) -> ProtocolError:
    return ProtocolError(f"the body is not compressed as its sys flag says: {why}")


def _package(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise ProtocolError(
            f"the package {name.partition('.')[0]} is not installed, which this compression needs: "
            "pip install 'ariane[compression]'"
        ) from None
