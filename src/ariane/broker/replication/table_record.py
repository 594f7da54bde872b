"""The format of table records: changes of topics, groups and offsets in the log of a DLedger group.

A record is a message of a system topic that is in no queue (a rolled-back one), so that Apache's members store and
dispatch it like any other and no consumer sees it. Its hosts are zero: a broker stamps the messages of clients with
its own address, so that no client can forge a record, not even through an Apache leader.

    body      magic 4s | flags u8 | part u16 | parts u16 | term i64 | sections, compressed if a flag says so
    section   kind 1s | length u32 | bytes

A section sets what it names and leaves the rest. All records of a snapshot together are the whole state.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct
from typing import Final

from ariane.errors import ProtocolError
from ariane.protocol.bodies import (
    ConsumerOffsetTable,
    DataVersion,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    TopicConfig,
    TopicConfigTable,
)
from ariane.protocol.units import TRANSACTION_ROLLBACK, Unit

TABLES_TOPIC: Final = "RMQ_SYS_ARIANE_TABLES"
NONE: Final = -1
"""The offset that removes a queue; a key without queues removes all of them."""

_NO_HOST: Final = bytes(8)
_MAGIC: Final = b"ArT1"
_HEAD: Final = Struct(">4sBHHq")
_SECTION: Final = Struct(">cI")
_COMPRESSED: Final = 1
_SNAPSHOT: Final = 2
_WORTH_COMPRESSING: Final = 512
_LARGEST: Final = 64 << 20  # bytes of an uncompressed record
_MOST_PARTS: Final = (1 << 16) - 1
_ITEM: Final = 64  # bytes of an item beside its name, roughly, when records are split

Offsets = dict[str, dict[int, int]]


@dataclass(slots=True)
class TableRecord:
    """One record. An offset NONE removes a queue of a key, an empty dictionary the key."""

    term: int
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    deleted_topics: list[str] = field(default_factory=list)
    topics_version: DataVersion | None = None
    groups: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    deleted_groups: list[str] = field(default_factory=list)
    groups_version: DataVersion | None = None
    offsets: Offsets = field(default_factory=dict)
    resets: Offsets = field(default_factory=dict)
    """Offsets to which the next pull of a queue is redirected."""
    delays: bytes = b""
    """The progress of delay levels, as in delayOffset.json; empty: unchanged."""
    snapshot: bool = False
    part: int = 0
    parts: int = 1

    def encode(self) -> bytes:
        """The body of the message."""
        sections = b"".join(self._sections())
        flags = _SNAPSHOT if self.snapshot else 0
        if len(sections) > _WORTH_COMPRESSING:
            sections = zlib.compress(sections, 1)
            flags |= _COMPRESSED
        return _HEAD.pack(_MAGIC, flags, self.part, self.parts, self.term) + sections

    def _sections(self) -> Iterator[bytes]:
        if self.topics_version is not None:
            yield _section(b"T", TopicConfigTable(self.topics_version, self.topics).encode())
        if self.deleted_topics:
            yield _section(b"t", "\n".join(self.deleted_topics).encode())
        if self.groups_version is not None:
            yield _section(b"G", SubscriptionGroupTable(self.groups_version, self.groups).encode())
        if self.deleted_groups:
            yield _section(b"g", "\n".join(self.deleted_groups).encode())
        if self.offsets:
            yield _section(b"O", ConsumerOffsetTable(self.offsets).encode())
        if self.resets:
            yield _section(b"R", ConsumerOffsetTable(self.resets).encode())
        if self.delays:
            yield _section(b"D", self.delays)

    @classmethod
    def decode(cls, body: bytes) -> "TableRecord":
        """Read a body; ProtocolError when it is none of a record."""
        if len(body) < _HEAD.size:
            raise ProtocolError("a table record is too short")
        magic, flags, part, parts, term = _HEAD.unpack_from(body)
        if magic != _MAGIC or part >= parts:
            raise ProtocolError("not a table record")
        record = cls(term, snapshot=bool(flags & _SNAPSHOT), part=part, parts=parts)
        sections = body[_HEAD.size :]
        if flags & _COMPRESSED:
            sections = _decompressed(sections)
        at = 0
        while at < len(sections):
            if at + _SECTION.size > len(sections):
                raise ProtocolError("a table record ends in a section")
            kind, length = _SECTION.unpack_from(sections, at)
            at += _SECTION.size
            if at + length > len(sections):
                raise ProtocolError("a table record ends in a section")
            record._take(kind, sections[at : at + length])
            at += length
        return record

    def _take(self, kind: bytes, data: bytes) -> None:
        if kind == b"T":
            topics = TopicConfigTable.decode(data)
            self.topics, self.topics_version = topics.topic_config_table, topics.data_version
        elif kind == b"G":
            groups = SubscriptionGroupTable.decode(data)
            self.groups, self.groups_version = groups.subscription_group_table, groups.data_version
        elif kind == b"O":
            self.offsets = ConsumerOffsetTable.decode(data).offset_table
        elif kind == b"R":
            self.resets = ConsumerOffsetTable.decode(data).offset_table
        elif kind == b"D":
            self.delays = data
        elif kind in (b"t", b"g"):
            names = data.decode(errors="replace").split("\n")
            if kind == b"t":
                self.deleted_topics = names
            else:
                self.deleted_groups = names
        # Sections of newer members are not known here, and are left out.

    def split(self, limit: int) -> "list[TableRecord]":
        """Records that set the same, each of about `limit` bytes at most before compression."""
        parts = [TableRecord(self.term, snapshot=self.snapshot, delays=self.delays)]
        parts[0].topics_version, parts[0].groups_version = self.topics_version, self.groups_version
        room = limit

        def part(size: int) -> TableRecord:
            nonlocal room
            if room < size < limit:
                parts.append(TableRecord(self.term, snapshot=self.snapshot))
                room = limit
            room -= size
            return parts[-1]

        for name, topic in self.topics.items():
            one = part(len(name) + 3 * _ITEM)
            one.topics[name], one.topics_version = topic, self.topics_version
        for name in self.deleted_topics:
            part(len(name)).deleted_topics.append(name)
        for name, group in self.groups.items():
            two = part(len(name) + 4 * _ITEM)
            two.groups[name], two.groups_version = group, self.groups_version
        for name in self.deleted_groups:
            part(len(name)).deleted_groups.append(name)
        for offsets in ("offsets", "resets"):
            table: Offsets = getattr(self, offsets)
            for key, queues in table.items():
                for some in _pieces(queues, max(limit // _ITEM, 1)):
                    getattr(part(len(key) + 12 * len(some)), offsets).setdefault(key, {}).update(some)
        if len(parts) > _MOST_PARTS:
            raise ValueError(f"{len(parts)} parts are too many for one snapshot")
        for number, record in enumerate(parts):
            record.part, record.parts = number, len(parts)
        return parts


def record_unit(body: bytes, now_ms: int) -> Unit:
    """The message that holds a record."""
    return Unit(
        TABLES_TOPIC.encode(),
        body,
        sys_flag=TRANSACTION_ROLLBACK,
        born_time=now_ms,
        born_host=_NO_HOST,
        store_host=_NO_HOST,
    )


def is_record(unit: Unit) -> bool:
    """Whether a member of the group has written this message, and no client."""
    return unit.topic == TABLES_TOPIC.encode() and unit.born_host == _NO_HOST and unit.store_host == _NO_HOST


def _section(kind: bytes, data: bytes) -> bytes:
    return _SECTION.pack(kind, len(data)) + data


def _decompressed(data: bytes) -> bytes:
    decompress = zlib.decompressobj()
    try:
        found = decompress.decompress(data, _LARGEST)
    except zlib.error as error:
        raise ProtocolError(f"a table record cannot be decompressed: {error}") from None
    if not decompress.eof:
        raise ProtocolError("a table record is incomplete or too large")
    return found


def _pieces(queues: dict[int, int], size: int) -> Iterator[dict[int, int]]:
    if not queues:
        yield {}
        return
    items = iter(queues.items())
    while piece := dict(islice(items, size)):
        yield piece
