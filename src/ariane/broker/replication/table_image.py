"""The tables of a DLedger group as its log says: what the committed table records up to a position add up to."""

import base64
import json
from typing import Final

from ariane.broker.replication.table_record import NONE, Offsets, TableRecord
from ariane.broker.tables.offsets import split_key
from ariane.protocol.bodies import DataVersion, SubscriptionGroupConfig, TopicConfig

_NO_VERSION: Final = DataVersion(0, 0)


class TableImage:
    """Applies records in the order of the log. Nothing else changes it, so that all members have the same one.

    `complete` is false until it is known to hold everything: a snapshot was applied, and no record was missed since.
    """

    def __init__(self) -> None:
        self.position = 0
        """The end of the last record applied, or of the log when the image was saved."""
        self.term = 0
        """The term of the last record applied."""
        self.snapshot = NONE
        """The position of the last whole snapshot; the log must be kept from there on."""
        self.snapshot_size = 0
        self.complete = False
        self.loaded = False
        """Whether it was read from its file."""
        self.clear()

    def resume_at(self, position: int) -> int:
        """Where records must be read again after a restart: at `position`, or at the parts of a snapshot before it."""
        return self._parts_from if self._parts else position

    def clear(self) -> None:
        """Forget all tables."""
        self.topics: dict[str, TopicConfig] = {}
        self.topics_version = _NO_VERSION
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        self.groups_version = _NO_VERSION
        self.offsets: Offsets = {}
        self.resets: Offsets = {}
        self.delays = b""
        self._parts: list[TableRecord] = []
        self._parts_from = 0

    def apply(self, record: TableRecord, start: int, end: int) -> bool:
        """Apply the record between two positions of the log; whether it completed a snapshot."""
        self.position = end
        self.term = record.term
        if not record.snapshot:
            self._parts = []
            self._change(record)
            return False
        if record.part == 0:
            self._parts, self._parts_from = [], start
        if record.part != len(self._parts) or any(
            (p.term, p.parts) != (record.term, record.parts) for p in self._parts
        ):
            self._parts = []  # its beginning is missing: a later snapshot is whole
            return False
        self._parts.append(record)
        if len(self._parts) < record.parts:
            return False
        parts, first = self._parts, self._parts_from
        self.clear()  # of its parts too
        for part in parts:
            self._change(part)
        self.snapshot, self.snapshot_size, self.complete = first, end - first, True
        return True

    def _change(self, record: TableRecord) -> None:
        self.topics.update(record.topics)
        self.topics_version = record.topics_version or self.topics_version
        for topic in record.deleted_topics:
            self.topics.pop(topic, None)
            for table in (self.offsets, self.resets):
                for key in [key for key in table if split_key(key)[0] == topic]:
                    del table[key]
        self.groups.update(record.groups)
        self.groups_version = record.groups_version or self.groups_version
        for group in record.deleted_groups:
            self.groups.pop(group, None)
        set_offsets(self.offsets, record.offsets)
        set_offsets(self.resets, record.resets)
        self.delays = record.delays or self.delays

    def record(self) -> TableRecord:
        """The whole state as one record."""
        return TableRecord(
            self.term,
            topics=self.topics,
            topics_version=self.topics_version,
            groups=self.groups,
            groups_version=self.groups_version,
            offsets=self.offsets,
            resets=self.resets,
            delays=self.delays,
            snapshot=True,
        )

    # On the disk.

    def encode(self) -> bytes:
        """The content of ledgerTables.json."""
        return json.dumps(
            {
                "position": self.position,
                "term": self.term,
                "snapshot": self.snapshot,
                "snapshotSize": self.snapshot_size,
                "complete": self.complete,
                "tables": base64.b64encode(self.record().encode()).decode(),
            }
        ).encode()

    def decode(self, data: bytes) -> None:
        """Take the content of ledgerTables.json; ProtocolError or ValueError when it is damaged."""
        found = json.loads(data)
        try:
            numbers = [int(found[name]) for name in ("position", "term", "snapshot", "snapshotSize")]
            complete = bool(found["complete"])
            record = TableRecord.decode(base64.b64decode(found["tables"], validate=True))
        except (KeyError, TypeError) as error:
            raise ValueError(f"no tables of a ledger: {error!r}") from None
        self.clear()
        self._change(record)
        self.position, self.term, self.snapshot, self.snapshot_size = numbers
        self.complete = complete
        self.loaded = True


def set_offsets(table: Offsets, changes: Offsets) -> None:
    """Set the offsets of a record, and remove what it removes."""
    for key, queues in changes.items():
        if not queues:
            table.pop(key, None)
            continue
        own = table.setdefault(key, {})
        for queue_id, offset in queues.items():
            if offset == NONE:
                own.pop(queue_id, None)
            else:
                own[queue_id] = offset
        if not own:
            del table[key]


def offset_changes(before: Offsets, after: Offsets, keys: set[str]) -> Offsets:
    """The changes of these keys that make `after` of `before`."""
    changes: Offsets = {}
    for key in keys:
        old, new = before.get(key, {}), after.get(key, {})
        if not new:
            if old:
                changes[key] = {}
            continue
        changed = {queue_id: offset for queue_id, offset in new.items() if old.get(queue_id) != offset}
        changed.update((queue_id, NONE) for queue_id in old if queue_id not in new)
        if changed:
            changes[key] = changed
    return changes
