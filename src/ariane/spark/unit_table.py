"""Many message units as a table: each field of all units at once, read from the bytes when it is asked for.

The layout is that of `ariane.protocol.units`. A field is gathered by indexing an array view that has an element at
every byte, so no unit is copied as a whole and no Python code runs per message.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ariane.protocol.units import (
    BORN_HOST_V6,
    COMPRESSED,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    STORE_HOST_V6,
    body_crc,
)
from ariane.spark.arrays import Ints, Mask, from_numpy, pieces
from ariane.spark.scan import Positions

_CRC_AT: Final = 8
_QUEUE_ID_AT: Final = 12
_FLAG_AT: Final = 16
_SYS_FLAG_AT: Final = 36
_BORN_TIME_AT: Final = 40
_BORN_HOST_AT: Final = 48
_END_FIELDS: Final = 16  # reconsume times, prepared offset, length of the body


class UnitTable:
    """The units at `starts` of `buffer`. All of them must lie whole within the buffer."""

    def __init__(self, buffer: memoryview, starts: Positions) -> None:
        self.buffer = buffer
        self.starts = starts

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, mask: Mask) -> "UnitTable":
        """The table of the units where the mask is true; this one, with what it has read, if that is everywhere."""
        return self if mask.all() else UnitTable(self.buffer, self.starts[mask])

    def _gather(self, dtype: str, at: Ints) -> npt.NDArray[Any]:
        width = np.dtype(dtype).itemsize
        if not len(at):
            return np.empty(0, dtype=np.dtype(dtype).newbyteorder("="))
        anywhere: npt.NDArray[Any] = np.ndarray((len(self.buffer) - width + 1,), dtype, self.buffer, 0, (1,))
        return anywhere[at].astype(np.dtype(dtype).newbyteorder("="))

    @cached_property
    def sizes(self) -> npt.NDArray[np.int32]:
        return self._gather(">i4", self.starts)

    @cached_property
    def magics(self) -> npt.NDArray[np.uint32]:
        return self._gather(">u4", self.starts + 4)

    @cached_property
    def crcs(self) -> npt.NDArray[np.uint32]:
        return self._gather(">u4", self.starts + _CRC_AT)

    @cached_property
    def queue_ids(self) -> npt.NDArray[np.int32]:
        return self._gather(">i4", self.starts + _QUEUE_ID_AT)

    @cached_property
    def flags(self) -> npt.NDArray[np.int32]:
        return self._gather(">i4", self.starts + _FLAG_AT)

    @cached_property
    def queue_offsets(self) -> Ints:
        return self._gather(">i8", self.starts + QUEUE_OFFSET_AT)

    @cached_property
    def physical_offsets(self) -> Ints:
        return self._gather(">i8", self.starts + PHYSICAL_OFFSET_AT)

    @cached_property
    def sys_flags(self) -> npt.NDArray[np.int32]:
        return self._gather(">i4", self.starts + _SYS_FLAG_AT)

    @cached_property
    def born_times(self) -> Ints:
        return self._gather(">i8", self.starts + _BORN_TIME_AT)

    @cached_property
    def _born_host_sizes(self) -> Ints:
        return np.where(self.sys_flags & BORN_HOST_V6, 20, 8).astype(np.int64)

    @cached_property
    def _store_host_sizes(self) -> Ints:
        return np.where(self.sys_flags & STORE_HOST_V6, 20, 8).astype(np.int64)

    @cached_property
    def _store_time_at(self) -> Ints:
        return self.starts + _BORN_HOST_AT + self._born_host_sizes

    @cached_property
    def store_times(self) -> Ints:
        return self._gather(">i8", self._store_time_at)

    @cached_property
    def _end_at(self) -> Ints:
        return self._store_time_at + 8 + self._store_host_sizes

    @cached_property
    def reconsume_times(self) -> npt.NDArray[np.int32]:
        return self._gather(">i4", self._end_at)

    @cached_property
    def prepared_offsets(self) -> Ints:
        return self._gather(">i8", self._end_at + 4)

    @cached_property
    def body_sizes(self) -> npt.NDArray[np.int32]:
        return self._gather(">i4", self._end_at + 12)

    @cached_property
    def _body_at(self) -> Ints:
        return self._end_at + _END_FIELDS

    @cached_property
    def _topic_at(self) -> Ints:
        return self._body_at + self.body_sizes + 1

    @cached_property
    def _topic_sizes(self) -> npt.NDArray[np.uint8]:
        return self._gather(">u1", self._topic_at - 1)

    @cached_property
    def _properties_at(self) -> Ints:
        return self._topic_at + self._topic_sizes + 2

    @cached_property
    def _properties_sizes(self) -> npt.NDArray[np.int16]:
        return self._gather(">i2", self._properties_at - 2)

    def born_hosts(self) -> pa.Array:
        return self._hosts(self.starts + _BORN_HOST_AT, self._born_host_sizes)

    def store_hosts(self) -> pa.Array:
        return self._hosts(self._store_time_at + 8, self._store_host_sizes)

    def _hosts(self, at: Ints, sizes: Ints) -> pa.Array:
        """Hosts as bytes, or when all are of IPv4 as numbers, which are quicker to compare."""
        return self.slices(at, sizes) if (sizes != 8).any() else from_numpy(self._gather(">u8", at))

    @cached_property
    def topics(self) -> pa.BinaryArray:
        return self.slices(self._topic_at, self._topic_sizes)

    def properties(self) -> pa.BinaryArray:
        return self.slices(self._properties_at, self._properties_sizes)

    def bodies(self) -> pa.BinaryArray:
        """The bodies as they are stored, compressed or not."""
        return self.slices(self._body_at, self.body_sizes)

    @cached_property
    def compressed(self) -> Mask:
        return (self.sys_flags & COMPRESSED) != 0

    def slices(self, at: Ints, sizes: npt.NDArray[Any]) -> pa.BinaryArray:
        """One piece of each unit, copied by Arrow out of the bytes that lie between the first piece and the last."""
        return pieces(self.buffer, at, sizes)

    def well_formed(self) -> int:
        """How many units from the first on have parts that add up to their size."""
        table = self
        for check in _CHECKS:
            good = check(table)
            if not good.all():
                table = UnitTable(self.buffer, self.starts[: int(np.argmin(good))])
        return len(table)

    def intact(self) -> Mask:
        """Which bodies match their checksums."""
        view, at, sizes = self.buffer, self._body_at.tolist(), self.body_sizes.tolist()
        sums = (body_crc(view[a : a + size]) for a, size in zip(at, sizes, strict=True))
        return np.fromiter(sums, dtype=np.uint32, count=len(self)) == self.crcs


# Each check reads where the one before it found room to read.
_CHECKS: Final[tuple[Callable[[UnitTable], Mask], ...]] = (
    lambda t: t._body_at - t.starts + 3 <= t.sizes,
    lambda t: (t.body_sizes >= 0) & (t._topic_at - t.starts + 2 <= t.sizes),
    lambda t: t._properties_at - t.starts <= t.sizes,
    lambda t: t._properties_at + t._properties_sizes == t.starts + t.sizes,
)
