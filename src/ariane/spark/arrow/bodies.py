"""Bodies as their senders wrote them: compressed ones are decompressed."""

import numpy as np
import pyarrow as pa

from ariane.errors import ProtocolError
from ariane.protocol.compression import LARGEST_BODY, inflate, too_large
from ariane.protocol.units import COMPRESSION_LZ4, COMPRESSION_TYPE, COMPRESSION_ZLIB, COMPRESSION_ZSTD
from ariane.spark.arrow.arrays import from_numpy
from ariane.spark.arrow.unit_table import UnitTable

_STREAMS = {COMPRESSION_LZ4: "lz4", COMPRESSION_ZSTD: "zstd"}


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Decompress one body by the codec its sys flag names, lz4 and zstd by Arrow; clients of 4.x name none: zlib."""
    kind = sys_flag & COMPRESSION_TYPE
    if kind in (0, COMPRESSION_ZLIB):
        return inflate(body)
    if kind not in _STREAMS:
        raise ProtocolError(f"the body is compressed by an unknown codec: {kind:#x} of its sys flag")
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), _STREAMS[kind]) as stream:
            plain = bytes(stream.read(LARGEST_BODY + 1))
    except (OSError, pa.ArrowException) as error:
        raise ProtocolError(f"the body is not compressed as its sys flag says: {error}") from error
    if len(plain) > LARGEST_BODY:
        raise too_large(LARGEST_BODY)
    return plain


def open_bodies(table: UnitTable, *, fail: bool) -> pa.BinaryArray:
    """All bodies. One that cannot be decompressed is an error, or null when `fail` is false."""
    stored = table.bodies()
    rows = np.flatnonzero(table.compressed)
    if not len(rows):
        return stored
    opened = [_open(table, stored, int(row), fail) for row in rows]
    order = np.arange(len(stored), dtype=np.int64)
    order[rows] = len(stored) + np.arange(len(rows))
    return pa.concat_arrays([stored, pa.array(opened, type=pa.binary())]).take(from_numpy(order))


def _open(table: UnitTable, stored: pa.BinaryArray, row: int, fail: bool) -> bytes | None:
    try:
        return decompress(stored[row].as_py(), int(table.sys_flags[row]))
    except ProtocolError as error:
        if not fail:
            return None
        place = f"queue {table.queue_ids[row]}, offset {table.queue_offsets[row]}"
        raise ProtocolError(f"message at {place}: {error}; failOnDataLoss=false reads such a body as null") from error
