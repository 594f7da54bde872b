"""Arrow arrays over numpy's memory and over bytes.

`pa.array` and `pa.scalar` look whether what they are given is of pandas, and import it for that: a third of a second of
each worker's life, and much for its garbage collector to look through.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def from_numpy(values: npt.NDArray[Any], kind: pa.DataType | None = None, valid: Mask | None = None) -> pa.Array:
    """The values themselves, not copied; null where `valid` is false. `kind` is another type of the same layout."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    kind = kind or pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])


def to_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """Numbers or booleans that have no nulls, the numbers not copied."""
    if pa.types.is_boolean(values.type):
        bits = np.frombuffer(values.buffers()[1], dtype=np.uint8)
        return np.unpackbits(bits, count=values.offset + len(values), bitorder="little")[values.offset :].view(np.bool_)
    kind = np.dtype(values.type.to_pandas_dtype())
    return np.frombuffer(values.buffers()[1], kind, len(values), values.offset * kind.itemsize)


def strings(values: Sequence[str]) -> pa.StringArray:
    """A few strings made in Python."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    data = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), data)


def pieces(buffer: memoryview, at: Ints, sizes: npt.NDArray[Any], valid: Mask | None = None) -> pa.BinaryArray:
    """Consecutive slices of the bytes, copied by Arrow; null where `valid` is false."""
    if valid is None or valid.all():
        wanted = _evens(len(at))
    else:
        wanted = from_numpy(np.arange(0, 2 * len(at), 2, dtype=np.int32), valid=valid)
    return _interleaved(buffer, at, sizes).take(wanted)


@lru_cache(maxsize=4)
def _evens(count: int) -> pa.Array:
    return from_numpy(np.arange(0, 2 * count, 2, dtype=np.int32))


def _interleaved(buffer: memoryview, at: Ints, sizes: npt.NDArray[Any]) -> pa.BinaryArray:
    """An array over the bytes themselves: its even elements are the pieces, its odd ones the bytes between them."""
    count = len(at)
    if not count:
        return pa.array([], type=pa.binary())
    first = int(at[0])
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2] = at - first
    offsets[1::2] = offsets[0::2] + sizes
    data = pa.py_buffer(buffer[first : int(at[-1]) + int(sizes[-1])])
    return pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), data])
