"""Packed bodies. zlib is RocketMQ 4's; lz4 and zstd are 5.x's and need the packages `lz4` and `zstandard`."""

import zlib
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from ariane.client.options import Compression
from ariane.errors import ProtocolError
from ariane.protocol.units import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_TYPE,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)

STEP = 1 << 20
LARGEST_BODY = 256 << 20  # of an unpacked message; a body that grows beyond is no message but an attack

FLAGS = {
    Compression.ZLIB: COMPRESSED,
    Compression.LZ4: COMPRESSED | COMPRESSION_LZ4,
    Compression.ZSTD: COMPRESSED | COMPRESSION_ZSTD,
}


def compressor(kind: Compression, level: int) -> Callable[[bytes], bytes]:
    """A function that packs a body; ModuleNotFoundError says which package is missing."""
    if kind is Compression.LZ4:
        lz4 = _lz4()
        return lambda body: bytes(lz4.compress(body))
    if kind is Compression.ZSTD:
        packer = _zstd().ZstdCompressor(level=level)
        return lambda body: bytes(packer.compress(body))
    return lambda body: zlib.compress(body, level)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """The body as it was before packing."""
    kind = sys_flag & COMPRESSION_TYPE
    try:
        if kind in (0, COMPRESSION_ZLIB):
            return _inflate(body)
        if kind == COMPRESSION_LZ4:
            return bytes(_lz4().decompress(body))
        if kind == COMPRESSION_ZSTD:
            return _unzstd(body)
    except (zlib.error, RuntimeError, ValueError) as error:
        raise ProtocolError(f"a body is not packed as its flag says: {error}") from None
    raise ProtocolError(f"a body is packed in a way nobody knows: {kind:#x}")


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    plain = inflater.decompress(body, LARGEST_BODY)
    if inflater.unconsumed_tail:
        raise ProtocolError(f"a packed body is over {LARGEST_BODY} bytes")
    return plain


def _unzstd(body: bytes) -> bytes:
    """In steps: a frame does not always say how large it will be."""
    zstd = _zstd()
    parts: list[bytes] = []
    size = 0
    try:
        with zstd.ZstdDecompressor().stream_reader(body) as reader:
            while part := reader.read(STEP):
                parts.append(part)
                size += len(part)
                if size > LARGEST_BODY:
                    raise ProtocolError(f"a packed body is over {LARGEST_BODY} bytes")
    except zstd.ZstdError as error:
        raise ProtocolError(f"a body is not packed as its flag says: {error}") from None
    return b"".join(parts)


def _lz4() -> ModuleType:
    return import_module("lz4.frame")


def _zstd() -> ModuleType:
    return import_module("zstandard")
