"""Reading message units as the store needs them: whole and well-formed or not, and where they belong."""

from struct import Struct
from types import FunctionType
from typing import Final

from ariane.protocol.checksum import crc32
from ariane.protocol.fast.matching import equal_span, stands_at
from ariane.protocol.native import i64
from ariane.protocol.units import (
    BLANK_MAGIC,
    BORN_HOST_V6,
    MAGIC,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_ROLLBACK,
)
from ariane.store.consumequeue import ConsumeQueue
from ariane.store.hashes import part_hash, tags_code
from ariane.store.queues import QueueTable

# total, magic, body crc, queue id, (flag,) queue offset, physical offset, sys flag (, born time)
_HEAD: Final = Struct(">iIIi4xqqi8x")
# the same and store time, body length, when both hosts are IPv4
_HEAD_V4: Final = Struct(">iIIi4xqqi8x8xq8x4x8xi")
_HEAD_LENGTH: Final = 48
_V4_LENGTH: Final = 88
_V6_FLAGS: Final = BORN_HOST_V6 | STORE_HOST_V6
_I64: Final = Struct(">q")
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_SIZE_MAGIC: Final = Struct(">iI")
_SECTOR: Final = 512  # what a disk writes as a whole

_TAGS: Final = b"TAGS\x01"
_UNIQUE: Final = b"UNIQ_KEY\x01"
_KEYS: Final = b"KEYS\x01"
_T: Final = ord("T")
_U: Final = ord("U")
_K: Final = ord("K")
_SEPARATOR: Final = 2

UNIT: Final = 1
END_OF_FILE: Final = 0
NOTHING: Final = -1


class Marks:
    """What queue and index want to know of stored properties: tags and keys, and where the unique key lies in them."""

    __slots__ = ("_sample", "keys", "tags_code", "unique_at", "unique_end")

    def __init__(self, properties: bytes) -> None:
        self._sample = properties
        self.tags_code = 0
        self.keys: bytes | None = None
        self.unique_at: i64 = 0
        self.unique_end: i64 = 0
        """Behind the unique key; 0 when there is none."""
        if PLAIN:
            self._look_by_parts(properties)
        else:
            self._look_by_bytes(properties)

    def fit(self, properties: bytes) -> bool:
        """Whether these properties differ in the unique key alone, so that the same is true of them."""
        size: i64 = len(properties)
        at, end = self.unique_at, self.unique_end
        sample = self._sample
        if size != len(sample):
            return False
        if PLAIN:
            return (
                properties[:at] == sample[:at] and properties[end:] == sample[end:]
                and properties.find(_SEPARATOR, at, end) < 0
            )  # fmt: skip
        if not equal_span(sample, 0, properties, 0, at) or not equal_span(sample, end, properties, end, size - end):
            return False
        while at < end:
            if properties[at] == _SEPARATOR:
                return False
            at += 1
        return True

    def _look_by_parts(self, properties: bytes) -> None:
        tags = value_of(properties, _TAGS)
        self.keys = value_of(properties, _KEYS)
        if tags is not None:
            self.tags_code = tags_code(tags)
        text = b"\x02" + properties
        found = text.rfind(b"\x02" + _UNIQUE)
        while found >= 0:
            at = found + len(_UNIQUE)
            end = properties.find(_SEPARATOR, at)
            if end < 0:
                end = len(properties)
            if end > at:
                self.unique_at, self.unique_end = at, end
                return
            found = text.rfind(b"\x02" + _UNIQUE, 0, found)  # an empty one says nothing

    def _look_by_bytes(self, properties: bytes) -> None:
        """The same in one look at each byte."""
        size: i64 = len(properties)
        at: i64 = 0
        while at < size:
            first: i64 = properties[at]
            end = at
            while end < size and properties[end] != _SEPARATOR:
                end += 1
            if first == _U and end > at + 9 and stands_at(_UNIQUE, properties, at):
                self.unique_at = at + 9
                self.unique_end = end
            elif first == _T and end > at + 5 and stands_at(_TAGS, properties, at):
                self.tags_code = tags_code(properties[at + 5 : end])
            elif first == _K and end > at + 5 and stands_at(_KEYS, properties, at):
                self.keys = properties[at + 5 : end]
            at = end + 1


class Dispatched:
    """A message on its way into its queue and the index. `properties` are the stored bytes.

    `tags_code` and `unique_hash` (-1 when there is none) are what queue and index know of its tags and its unique key.
    """

    __slots__ = (
        "keys",
        "physical_offset",
        "properties",
        "queue",
        "queue_offset",
        "size",
        "store_time",
        "sys_flag",
        "tags_code",
        "unique_hash",
    )

    def __init__(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        physical_offset: int,
        size: int,
        store_time: int,
        sys_flag: int,
        properties: bytes,
        marks: Marks,
    ) -> None:
        self.queue = queue
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.size = size
        self.store_time = store_time
        self.sys_flag = sys_flag
        self.properties = properties
        self.tags_code = marks.tags_code
        self.keys = marks.keys
        self.unique_hash = -1
        if sys_flag & TRANSACTION_ROLLBACK == TRANSACTION_ROLLBACK:  # nobody is to find it
            self.keys = None
        elif marks.unique_end:
            self.unique_hash = part_hash(queue.key_hash, properties, marks.unique_at, marks.unique_end)

    @property
    def topic(self) -> str:
        return self.queue.topic

    @property
    def queue_id(self) -> int:
        return self.queue.queue_id


def is_in_queue(sys_flag: int) -> bool:
    """Prepared and rolled-back messages are in no queue."""
    transaction = sys_flag & TRANSACTION_ROLLBACK
    return transaction == 0 or transaction == TRANSACTION_COMMIT


def value_of(properties: bytes, name: bytes) -> bytes | None:
    """The value of a property, whose name is given with the separator behind it; None when it is missing or empty."""
    return _found_by_parts(properties, name) if PLAIN else _found_by_bytes(properties, name)


def _found_by_parts(properties: bytes, name: bytes) -> bytes | None:
    """Of all ways to search in bytes the one that costs plain Python least."""
    before, found, rest = properties.partition(name)
    while found and before and before[-1] != 2:  # only the end of another name
        before, found, rest = rest.partition(name)
    return rest.partition(b"\x02")[0] or None if found else None


def _found_by_bytes(properties: bytes, name: bytes) -> bytes | None:
    """Compiled, a look at each byte costs less than a call."""
    size: i64 = len(properties)
    width: i64 = len(name)
    first: i64 = name[0]
    at: i64 = 0
    while at + width <= size:
        if properties[at] == first and properties[at : at + width] == name:
            at += width
            end = at
            while end < size and properties[end] != 2:
                end += 1
            return properties[at:end] or None
        while at < size and properties[at] != 2:
            at += 1
        at += 1
    return None


PLAIN: Final = isinstance(value_of, FunctionType)
"""Whether this module is not compiled."""


def kind_at(memory: memoryview, at: int) -> int:
    """What begins at `at`: UNIT, END_OF_FILE (a blank record, or no room for one) or NOTHING."""
    if at + 8 > len(memory):
        return END_OF_FILE
    magic = _SIZE_MAGIC.unpack_from(memory, at)[1]
    if magic == MAGIC:
        return UNIT
    return END_OF_FILE if magic == BLANK_MAGIC else NOTHING


def read_unit(memory: memoryview, at: int, physical: int, check_crc: bool, table: QueueTable) -> Dispatched | None:
    """The unit at `at`, which lies at `physical` in the log; None unless it is whole and all its parts agree."""
    if at + _V4_LENGTH > len(memory):
        return None
    size, magic, crc, queue_id, queue_offset, said, sys_flag, store_time, body_length = _HEAD_V4.unpack_from(memory, at)
    end = at + size
    if magic != MAGIC or said != physical or size < _V4_LENGTH or end > len(memory):
        return None
    body_at = at + _V4_LENGTH
    if sys_flag & _V6_FLAGS:
        store_at = at + _HEAD_LENGTH + (20 if sys_flag & BORN_HOST_V6 else 8)
        body_at = store_at + 8 + (20 if sys_flag & STORE_HOST_V6 else 8) + 16
        if body_at > end:
            return None
        (store_time,) = _I64.unpack_from(memory, store_at)
        (body_length,) = _I32.unpack_from(memory, body_at - 4)
    topic_at = body_at + body_length + 1
    if body_length < 0 or topic_at + 2 > end:
        return None
    topic_end = topic_at + memory[topic_at - 1]
    if topic_end + 2 > end or topic_end + 2 + _I16.unpack_from(memory, topic_end)[0] != end:
        return None
    if check_crc and body_length and crc32(memory[body_at : body_at + body_length]) & 0x7FFFFFFF != crc:
        return None
    topic = bytes(memory[topic_at:topic_end])
    properties = bytes(memory[topic_end + 2 : end])
    if 0 in topic:
        return None
    queue = table.find(topic, queue_id)
    if queue is None:
        queue = table.nowhere
    return Dispatched(queue, queue_offset, physical, size, store_time, sys_flag, properties, Marks(properties))


def has_zero_sector(memory: memoryview, end: int, properties: int) -> bool:
    """Whether a sector is zero in the `properties` bytes of a unit that ends at `end` of its file.

    A power cut leaves such a sector where it was not written yet. Everything else of a unit shows that by itself.
    """
    first = end - properties
    return any(not any(memory[at : at + _SECTOR]) for at in range(first + -first % _SECTOR, end, _SECTOR))


def store_time_of(unit: memoryview) -> int:
    """The store time of a unit that is known to be whole."""
    sys_flag = _I32.unpack_from(unit, 36)[0]
    found: int = _I64.unpack_from(unit, _HEAD_LENGTH + (20 if sys_flag & BORN_HOST_V6 else 8))[0]
    return found


def properties_of(unit: memoryview) -> bytes:
    """The stored properties of a unit that is known to be whole."""
    sys_flag = _I32.unpack_from(unit, 36)[0]
    body_at = _V4_LENGTH
    if sys_flag & _V6_FLAGS:
        body_at += 12 * bool(sys_flag & BORN_HOST_V6) + 12 * bool(sys_flag & STORE_HOST_V6)
    topic_at = body_at + _I32.unpack_from(unit, body_at - 4)[0] + 1
    return bytes(unit[topic_at + unit[topic_at - 1] + 2 :])
