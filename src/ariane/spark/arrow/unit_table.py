"""Message units as a table: each field is read for all units at once, on demand.

The layout is that of `ariane.protocol.units`. A field at the same place in all units is taken from a copy of their
beginnings; anything else is gathered by indexing an array view that has an element at every byte. No Python code runs
per message.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ariane.protocol.units import (
    BORN_HOST_AT,
    BORN_HOST_V6,
    COMPRESSED,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    V4_BODY_AT,
    body_crc,
)
from ariane.spark.arrow.arrays import Ints, Mask, from_numpy, pieces
from ariane.spark.arrow.scan import Positions

_FIELDS: Final = {
    "size": (">i4", 0),
    "magic": (">u4", 4),
    "crc": (">u4", 8),
    "queue_id": (">i4", QUEUE_ID_AT),
    "flag": (">i4", 16),
    "queue_offset": (">i8", QUEUE_OFFSET_AT),
    "physical_offset": (">i8", PHYSICAL_OFFSET_AT),
    "sys_flag": (">i4", SYS_FLAG_AT),
    "born_time": (">i8", 40),
    "born_host": (">u8", BORN_HOST_AT),
    "store_time": (">i8", 56),
    "store_host": (">u8", 64),
    "reconsume_times": (">i4", 72),
    "prepared_offset": (">i8", 76),
    "body_size": (">i4", 84),
}
"""Type and place of what a unit begins with when its hosts are of IPv4. Up to the hosts every unit begins so."""

_HEAD: Final = np.dtype(
    {
        "names": list(_FIELDS),
        "formats": [kind for kind, _ in _FIELDS.values()],
        "offsets": [at for _, at in _FIELDS.values()],
        "itemsize": V4_BODY_AT,
    }
)
_END_FIELDS: Final = 16  # reconsume times, prepared offset, length of the body


class UnitTable:
    """The units at `starts` of `buffer`. REQUIRES: all are whole within the buffer."""

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
    def _heads(self) -> npt.NDArray[np.void] | None:
        """The beginnings of all units side by side, which makes each field cheap; None if they go over the end."""
        room = len(self.buffer) - _HEAD.itemsize
        if not len(self) or int(self.starts.max()) > room:
            return None
        anywhere: npt.NDArray[np.void] = np.ndarray((room + 1,), f"V{_HEAD.itemsize}", self.buffer, 0, (1,))
        return anywhere[self.starts].view(_HEAD)

    def _head(self, name: str) -> npt.NDArray[Any]:
        """A field at the same place in all of these units."""
        kind, at = _FIELDS[name]
        if self._heads is None:
            return self._gather(kind, self.starts + at)
        return self._heads[name].astype(np.dtype(kind).newbyteorder("="))

    @cached_property
    def sizes(self) -> npt.NDArray[np.int32]:
        return self._head("size")

    @cached_property
    def magics(self) -> npt.NDArray[np.uint32]:
        return self._head("magic")

    @cached_property
    def crcs(self) -> npt.NDArray[np.uint32]:
        return self._head("crc")

    @cached_property
    def queue_ids(self) -> npt.NDArray[np.int32]:
        return self._head("queue_id")

    @cached_property
    def flags(self) -> npt.NDArray[np.int32]:
        return self._head("flag")

    @cached_property
    def queue_offsets(self) -> Ints:
        return self._head("queue_offset")

    @cached_property
    def physical_offsets(self) -> Ints:
        return self._head("physical_offset")

    @cached_property
    def sys_flags(self) -> npt.NDArray[np.int32]:
        return self._head("sys_flag")

    @cached_property
    def born_times(self) -> Ints:
        return self._head("born_time")

    @cached_property
    def _short(self) -> bool:
        """Whether all hosts are of IPv4, so that the fields after them are at the same place in all units."""
        return not (self.sys_flags & (BORN_HOST_V6 | STORE_HOST_V6)).any()

    def _host_sizes(self, long: int) -> Ints:
        return np.where(self.sys_flags & long, 20, 8).astype(np.int64)

    @cached_property
    def _store_time_at(self) -> Ints:
        return self.starts + BORN_HOST_AT + self._host_sizes(BORN_HOST_V6)

    @cached_property
    def store_times(self) -> Ints:
        return self._head("store_time") if self._short else self._gather(">i8", self._store_time_at)

    @cached_property
    def _end_at(self) -> Ints:
        if self._short:
            return self.starts + (_HEAD.itemsize - _END_FIELDS)
        return self._store_time_at + 8 + self._host_sizes(STORE_HOST_V6)

    @cached_property
    def reconsume_times(self) -> npt.NDArray[np.int32]:
        return self._head("reconsume_times") if self._short else self._gather(">i4", self._end_at)

    @cached_property
    def prepared_offsets(self) -> Ints:
        return self._head("prepared_offset") if self._short else self._gather(">i8", self._end_at + 4)

    @cached_property
    def body_sizes(self) -> npt.NDArray[np.int32]:
        return self._head("body_size") if self._short else self._gather(">i4", self._end_at + 12)

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
        """Hosts as bytes, or when all are of IPv4 as numbers, which are quicker to compare."""
        if self._short:
            return from_numpy(self._head("born_host"))
        return self.slices(self.starts + BORN_HOST_AT, self._host_sizes(BORN_HOST_V6))

    def store_hosts(self) -> pa.Array:
        """Like `born_hosts`, for the hosts of the brokers."""
        if self._short:
            return from_numpy(self._head("store_host"))
        return self.slices(self._store_time_at + 8, self._host_sizes(STORE_HOST_V6))

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
        """One slice of each unit, copied by Arrow."""
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
