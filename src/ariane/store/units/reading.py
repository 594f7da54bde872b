"""Reads and checks message units of the log."""

from struct import Struct
from typing import Final

from ariane.protocol.checksum import crc32
from ariane.protocol.units import (
    BLANK,
    BLANK_MAGIC,
    BORN_HOST_AT,
    BORN_HOST_V6,
    MAGIC,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    V4_BODY_AT,
    V4_CHECK,
)
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.table import QueueTable
from ariane.store.units.hashes import part_hash
from ariane.store.units.marks import Marks

_V6_FLAGS: Final = BORN_HOST_V6 | STORE_HOST_V6
_I64: Final = Struct(">q")
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_SECTOR: Final = 512  # the unit that a disk writes atomically

UNIT: Final = 1
END_OF_FILE: Final = 0
NOTHING: Final = -1


class Dispatched:
    """A message for dispatch to its queue and the index. `properties` are the stored bytes.

    `tags_code` is stored in the queue, `unique_hash` (-1 when there is none) in the index.
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
        if sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:  # must not be indexed
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
    transaction = sys_flag & TRANSACTION_MASK
    return transaction == 0 or transaction == TRANSACTION_COMMIT


def kind_at(memory: memoryview, at: int) -> int:
    """What begins at `at`: UNIT, END_OF_FILE (a blank record, or no room for one) or NOTHING."""
    if at + 8 > len(memory):
        return END_OF_FILE
    magic = BLANK.unpack_from(memory, at)[1]
    if magic == MAGIC:
        return UNIT
    return END_OF_FILE if magic == BLANK_MAGIC else NOTHING


def read_unit(memory: memoryview, at: int, physical: int, check_crc: bool, table: QueueTable) -> Dispatched | None:
    """The unit at position `at`, whose physical offset is `physical`; None unless it is whole and consistent."""
    if at + V4_BODY_AT > len(memory):
        return None
    size, magic, crc, queue_id, queue_offset, place, sys_flag, store_time, body_length = V4_CHECK.unpack_from(
        memory, at
    )
    end = at + size
    if magic != MAGIC or place != physical or size < V4_BODY_AT or end > len(memory):
        return None
    body_at = at + V4_BODY_AT
    if sys_flag & _V6_FLAGS:
        store_at = at + BORN_HOST_AT + (20 if sys_flag & BORN_HOST_V6 else 8)
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

    A power cut leaves such a sector where it was not written yet. All other parts of a unit have their own checks.
    """
    first = end - properties
    return any(not any(memory[at : at + _SECTOR]) for at in range(first + -first % _SECTOR, end, _SECTOR))


def store_time_of(unit: memoryview) -> int:
    """The store time of a whole unit."""
    sys_flag = _I32.unpack_from(unit, SYS_FLAG_AT)[0]
    found: int = _I64.unpack_from(unit, BORN_HOST_AT + (20 if sys_flag & BORN_HOST_V6 else 8))[0]
    return found
