"""Bodies as their senders wrote them: the compressed ones opened, all others left where they are."""

import zlib

import numpy as np
import pyarrow as pa

from ariane.errors import ProtocolError
from ariane.protocol.units import COMPRESSION_LZ4, COMPRESSION_TYPE, COMPRESSION_ZSTD
from ariane.spark.arrow.arrays import from_numpy
from ariane.spark.arrow.unit_table import UnitTable

_STREAMS = {COMPRESSION_LZ4: "lz4", COMPRESSION_ZSTD: "zstd"}


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Open one body by the compression its sys flag names; clients of 4.x name none and mean zlib."""
    codec = _STREAMS.get(sys_flag & COMPRESSION_TYPE)
    try:
        if codec is None:
            return zlib.decompress(body)
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            return bytes(stream.read())
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise ProtocolError(f"the body is flagged as compressed but does not open: {error}") from error


def open_bodies(table: UnitTable, *, fail: bool) -> pa.BinaryArray:
    """All bodies. One that does not open is an error, or null when `fail` is false."""
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
