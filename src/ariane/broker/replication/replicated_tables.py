"""Topics, groups and offsets of a DLedger group, in its log.

The leader appends a record of each change (`table_record`); every member applies the records when it dispatches them.
Requests that change a table are answered when their record is committed, so that what they changed survives the leader
like a message. Topics and groups are recorded at once, in the order of the messages around them; offsets once a second,
or when a request waits for its offset. The image (`table_image`) holds what is committed: a leader that is deposed
returns to it. A snapshot of everything follows at the beginning of each log file, so that old files can be deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from copy import copy
from typing import Final, Protocol

from ariane.broker.delay.progress import DelayProgress
from ariane.broker.periodic import Periodic
from ariane.broker.replication.table_image import TableImage, offset_changes
from ariane.broker.replication.table_record import TABLES_TOPIC, TableRecord, is_record, record_unit
from ariane.broker.replication.waiting import happens
from ariane.broker.role import Role
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import Done, Persistence
from ariane.broker.tables.topics import TopicTable
from ariane.dledger.storage.log import LedgerLog
from ariane.dledger.storage.term_entry import is_term_entry
from ariane.env import Clock
from ariane.errors import ArianeError, ProtocolError
from ariane.protocol.bodies import ConsumerOffsetTable, SubscriptionGroupTable, TopicConfigTable
from ariane.store import MessageStore, PutStatus
from ariane.store.units.reading import Dispatched

log = logging.getLogger("ariane.broker.replication")

TICK: Final = 1.0  # seconds between two records of offsets that no request waits for
SAVE: Final = 10.0  # seconds between two writes of the image
LARGEST_PART: Final = 1 << 18  # bytes of one record, unless log files are small
GROWTH: Final = 4  # a snapshot waits until the log has grown by so many of its size


class NotRecorded(ArianeError):
    """A record could not be appended, or was not committed."""


class GroupMember(Protocol):
    """The part of `ariane.dledger.member.Member` that tables use."""

    @property
    def can_append(self) -> bool:
        """Whether this member leads and may append entries."""
        ...

    @property
    def leader_is_apache(self) -> bool: ...

    @property
    def term(self) -> int: ...

    @property
    def ledger(self) -> LedgerLog: ...


class Committed:
    """Waits until the changes of a table are committed, in place of the table's file."""

    def __init__(self, is_kept: Callable[[], bool], when_kept: Callable[[Done], None]) -> None:
        self._is_kept = is_kept
        self.when_kept = when_kept

    @property
    def is_kept(self) -> bool:
        """Whether every change so far is committed."""
        return self._is_kept()


class ReplicatedTables:
    """Writes records on a leader and applies them on every member. `start` follows the opening of the store."""

    def __init__(
        self,
        member: GroupMember,
        store: MessageStore,
        role: Role,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        persistence: Persistence,
        clock: Clock,
    ) -> None:
        self.image = TableImage()
        self.delays: DelayProgress | None = None
        """The progress of delay levels, which is recorded with the offsets."""
        self._member = member
        self._store = store
        self._role = role
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clock = clock
        self._file = persistence.table("ledgerTables.json", self.image.encode, self.image.decode)
        self._saved_position = -1
        self._leading = False
        self._led = 0  # the last term that this member led
        self._applying = False
        self._new_topics: dict[str, None] = {}  # changed and not recorded yet
        self._new_groups: dict[str, None] = {}
        self._recorded = 0  # end of the last record of topics and groups
        self._proposed: deque[tuple[int, int, bytes]] = deque()  # own records that are not dispatched: start, end, body
        self._waiting: list[Done] = []  # for the next record of offsets
        self._wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._save = Periodic(clock, SAVE, self.save, name="save the tables of the ledger")
        topics.on_change.append(self._topic_changed)
        groups.on_change.append(self._group_changed)
        configs = Committed(self._are_configs_kept, self._when_configs_kept)
        persistence.topics.promise = persistence.groups.promise = configs
        persistence.offsets.promise = Committed(lambda: False, self._when_offsets_kept)

    # -- start and stop ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring the image to the end of the dispatched log, and follow the log from there."""
        store = self._store
        self._file.load()
        if not self.image.loaded:
            # Without a file, the records of the log so far are not searched: the next snapshot has everything.
            self.image.position = store.dispatcher.position
            await self._file.save()
        self._catch_up()
        store.dispatcher.barrier = TABLES_TOPIC
        store.add_dispatch_listener(self._dispatched)
        store.on_cut.append(self._cut)
        store.retention.keepers.append(self._may_delete)
        if self._is_native(self._member.ledger.first_from(store.dispatcher.position) - 1):
            self._show_image()
        self._save.start()
        self._tasks = [asyncio.get_running_loop().create_task(self._record_offsets(), name="record offsets")]

    async def stop(self) -> None:
        """Stop following the log, and save the image."""
        self.follow()
        await self._save.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._store.remove_dispatch_listener(self._dispatched)
        if self._tasks:
            self._tasks = []
            await self.save()

    async def save(self) -> None:
        """Write the image if it changed; it is right up to the end of the dispatched log."""
        position = self.image.resume_at(self._store.dispatcher.position)
        if position != self._saved_position:
            self.image.position = position
            if await self._file.save():
                self._saved_position = position

    def _catch_up(self) -> None:
        """Apply the records that were dispatched after the image was saved."""
        ledger, image, end = self._member.ledger, self.image, self._store.dispatcher.position
        if image.position < ledger.min_offset:
            image.complete = False  # records were deleted meanwhile
        for index in range(max(ledger.first_from(image.position), ledger.first_index, 0), ledger.last_index + 1):
            found = ledger.index.get(index)
            if found is None or found[0] >= end:
                break
            unit = self._store.unit_at(found[0] + ledger.header, found[1] - ledger.header)
            if unit is not None and is_record(unit):
                self._apply(unit.body, found[0], found[0] + found[1])

    # -- what others ask --------------------------------------------------------------------------------------------

    @property
    def covers(self) -> bool:
        """Whether topics, groups and offsets reach this member in the log, because an Ariane member leads or led."""
        return self._leading or (not self._member.leader_is_apache and self.is_native())

    def is_native(self) -> bool:
        """Whether the log's newest leader that served wrote records, and the image has all of them."""
        if self.image.position > self._store.log_max:
            self.image.complete = False  # this log was lost, or belongs to another group
        return self._is_native(self._member.ledger.last_index)

    def _is_native(self, index: int) -> bool:
        """Entries of a term without a record, other than its first entry, were written by an Apache leader."""
        ledger, image = self._member.ledger, self.image
        while image.complete and index >= max(ledger.first_index, 0):
            found = ledger.index.get(index)
            if found is None:
                return False
            if found[2] == image.term:
                break
            record = ledger.record(found[0], found[1])
            if record is None or not is_term_entry(record):
                return False
            index -= 1
        return image.complete

    # -- roles ------------------------------------------------------------------------------------------------------

    async def lead(self, term: int, *, native: bool) -> None:
        """Make the tables those of a leader, and return when the first record of the term is committed.

        `native` says that the image is right. Otherwise the caller has merged what it could find, and that is recorded
        as a whole. NotRecorded when this member does not lead any more.
        """
        self._forget()
        if native:
            self._show_image()
            if self.image.delays and self.delays is not None:
                self.delays.take(self.image.delays)
        for key, queues in self._offsets.committed_here.items():
            for queue_id, offset in queues.items():
                self._offsets.raise_to(key, queue_id, offset)
        self._leading, self._led = True, term
        self._offsets.unreplicated = set()
        record = self._differences(term) if native else self._everything(term)
        if not self._append(record):
            raise NotRecorded(f"the first record of term {term} could not be appended")
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._store.when_flushed(self._proposed[-1][1], lambda ok: None if done.done() else done.set_result(ok))
        if not await done:
            raise NotRecorded(f"the first record of term {term} was not committed")
        self._offsets.committed_here.clear()

    def follow(self) -> None:
        """Return to what is committed; requests that wait get an unknown outcome."""
        if not self._leading:
            return
        self._forget()
        if self.image.complete and self.image.term == self._led:
            self._show_image()

    def settle(self) -> None:
        """Drop changes that requests made while the role changed, and that are in no record."""
        if not self._leading and self.is_native():
            self._show_image()

    def _forget(self) -> None:
        self._leading = False
        self._offsets.unreplicated = None
        self._new_topics.clear()
        self._new_groups.clear()
        self._topics.deleting.clear()
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(False)

    def _show_image(self) -> None:
        """Make the tables of the broker those of the image; topics that every broker has stay."""
        image = self.image
        self._applying = True
        try:
            topics = {config.topic_name: config for config in self._topics.own()}
            topics.update((name, copy(config)) for name, config in image.topics.items())
            if topics != {config.topic_name: config for config in self._topics}:
                self._topics.replace(TopicConfigTable(image.topics_version, topics))
            groups = {config.group_name: config for config in self._groups.own()}
            groups.update((name, copy(config)) for name, config in image.groups.items())
            if groups != {config.group_name: config for config in self._groups}:
                self._groups.replace(SubscriptionGroupTable(image.groups_version, groups))
            self._offsets.replace(ConsumerOffsetTable(image.offsets), image.resets)
        finally:
            self._applying = False

    # -- applying ---------------------------------------------------------------------------------------------------

    def _dispatched(self, batch: list[Dispatched]) -> None:
        position = self._store.dispatcher.position
        while self._proposed and self._proposed[0][1] <= position:
            start, end, body = self._proposed.popleft()
            self._apply(body, start, end)
        if batch and batch[-1].queue.topic == TABLES_TOPIC:  # the dispatcher ends a batch that it read with a record
            record = batch[-1]
            start = record.physical_offset - self._store.log.header
            if start >= self.image.position:
                unit = self._store.unit_at(record.physical_offset, record.size)
                if unit is not None and is_record(unit):
                    self._apply(unit.body, start, position)

    def _apply(self, body: bytes, start: int, end: int) -> None:
        try:
            record = TableRecord.decode(body)
        except ProtocolError as error:
            log.error("the table record at %d cannot be read, and is left out: %s", start, error)
            self.image.position = end
            return
        whole = self.image.apply(record, start, end)
        for topic in record.deleted_topics:
            self._store.delete_topic_before(topic, end)
            self._offsets.remove_topic(topic)
            self._topics.deleting.discard(topic)
        if self._leading or not self.image.complete:
            return
        if whole:
            self._show_image()
            return
        self._applying = True
        try:
            if record.topics_version is not None:
                topics = {name: copy(config) for name, config in record.topics.items()}
                self._topics.apply(topics, record.deleted_topics, record.topics_version)
            if record.groups_version is not None:
                groups = {name: copy(config) for name, config in record.groups.items()}
                self._groups.apply(groups, record.deleted_groups, record.groups_version)
            self._offsets.apply(record.offsets, record.resets)
        finally:
            self._applying = False

    def _cut(self, end: int) -> None:
        """The log was truncated: records after `end` do not exist. With 0 it begins again, and records are missing."""
        while self._proposed and self._proposed[-1][1] > end:
            self._proposed.pop()
        if end == 0:
            self.image.complete = False
            self.image.position = 0

    def _may_delete(self, file_end: int) -> bool:
        """Keep the log from the last snapshot on: a member that has only the log finds all tables there."""
        return not self.covers or file_end <= self.image.snapshot

    # -- recording --------------------------------------------------------------------------------------------------

    def _topic_changed(self, topic: str) -> None:
        if not self._leading or self._applying:
            return
        self._new_topics.update(dict.fromkeys([topic] if topic else self._topics.names()))
        if topic and topic not in self._topics:
            self._topics.deleting.add(topic)
        self._record_configs()

    def _group_changed(self, group: str) -> None:
        if not self._leading or self._applying:
            return
        self._new_groups.update(dict.fromkeys([group] if group else (one.group_name for one in self._groups)))
        self._record_configs()

    def drop_topic(self, topic: str) -> None:
        """Delete the queues of a topic and the offsets in it on every member, when the record of it is committed."""
        if self._leading and topic not in self._topics.deleting:
            self._topic_changed(topic)

    def _record_configs(self) -> None:
        """Append the changes of topics and groups now: messages that follow belong to the topics as they are now."""
        if not (self._new_topics or self._new_groups):
            return
        record = TableRecord(self._member.term)
        for name in self._new_topics:
            topic = self._topics.get(name)
            if topic is None:
                record.deleted_topics.append(name)
            else:
                record.topics[name] = topic
        for name in self._new_groups:
            group = self._groups.get(name)
            if group is None:
                record.deleted_groups.append(name)
            else:
                record.groups[name] = group
        record.topics_version = self._topics.version if self._new_topics else None
        record.groups_version = self._groups.version if self._new_groups else None
        if self._append(record):
            self._new_topics.clear()
            self._new_groups.clear()
            self._recorded = self._proposed[-1][1]

    def _append(self, record: TableRecord) -> bool:
        if not self._member.can_append:
            return False
        limit = min(LARGEST_PART, self._store.log.file_size // 8)
        now = self._clock.now_ms()
        for part in record.split(limit):
            body = part.encode()
            result = self._store.append_record(record_unit(body, now))
            if result.status is not PutStatus.OK:
                log.error("a change of topics, groups or offsets could not be recorded: %s", result.status.value)
                return False
            start = result.physical_offset - self._store.log.header
            self._proposed.append((start, result.end_offset, body))
        return True

    def _everything(self, term: int) -> TableRecord:
        """A snapshot of the tables as they are."""
        return TableRecord(
            term,
            topics={config.topic_name: config for config in self._topics},
            topics_version=self._topics.version,
            groups={config.group_name: config for config in self._groups},
            groups_version=self._groups.version,
            offsets=self._offsets.table().offset_table,
            resets=self._offsets.pending(),
            delays=self._progress(),
            snapshot=True,
        )

    def _differences(self, term: int) -> TableRecord:
        """What this member has beside the image when it begins to lead: topics of its options, commits made here."""
        image, offsets = self.image, self._offsets
        record = TableRecord(term)
        record.topics = {c.topic_name: c for c in self._topics if image.topics.get(c.topic_name) != c}
        record.groups = {c.group_name: c for c in self._groups if image.groups.get(c.group_name) != c}
        record.topics_version = self._topics.version if record.topics else None
        record.groups_version = self._groups.version if record.groups else None
        record.offsets = offset_changes(image.offsets, offsets.table().offset_table, set(offsets.committed_here))
        return record

    def _progress(self) -> bytes:
        return b"" if self.delays is None else self.delays.now()

    # -- waiting ----------------------------------------------------------------------------------------------------

    def _are_configs_kept(self) -> bool:
        return not (self._new_topics or self._new_groups) and self._recorded <= self._store.log_max

    def _when_configs_kept(self, done: Done) -> None:
        """Call `done(True)` when all changes of topics and groups are committed, `done(False)` if that is not known."""
        self._record_configs()
        if not self._leading:
            done(False)
        elif self._are_configs_kept():
            done(True)
        elif self._new_topics or self._new_groups:
            done(False)
        else:
            self._store.when_flushed(self._recorded, done)

    def _when_offsets_kept(self, done: Done) -> None:
        """The same for offsets; a follower keeps those that are committed there until the leader has them."""
        if self._leading:
            self._waiting.append(done)
            self._wanted.set()
        else:
            done(self._role.is_slave)

    async def _record_offsets(self) -> None:
        """Record changed offsets; requests that arrive while a record is on its way share the next one."""
        while True:
            await happens(self._wanted, TICK, self._clock)
            self._wanted.clear()
            if not self._leading:
                continue
            waiting, self._waiting = self._waiting, []
            kept = False
            try:
                self._record_configs()
                kept = await self._record_changed_offsets()
                if self._snapshot_is_due:
                    self._append(self._everything(self._member.term))
            except Exception:
                log.exception("offsets could not be recorded; it is tried again")
            finally:
                for done in waiting:
                    done(kept)

    async def _record_changed_offsets(self) -> bool:
        """Append one record of what changed since the last one; whether it is committed."""
        changed, offsets, image = self._offsets.unreplicated, self._offsets, self.image
        if changed is None or not self._member.can_append:
            return False
        record = TableRecord(
            self._member.term,
            offsets=offset_changes(image.offsets, offsets.table().offset_table, changed),
            resets=offset_changes(image.resets, offsets.pending(), changed),
        )
        progress = self._progress()
        if progress != image.delays:
            record.delays = progress
        if not (record.offsets or record.resets or record.delays):
            changed.clear()
            return True
        self._offsets.unreplicated = set()
        if self._append(record):
            done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._store.when_flushed(self._proposed[-1][1], lambda ok: None if done.done() else done.set_result(ok))
            if await done:
                return True
        if self._offsets.unreplicated is not None:
            self._offsets.unreplicated |= changed
        return False

    @property
    def _snapshot_is_due(self) -> bool:
        """Whether the log has reached a file after that of the last snapshot, and has grown enough."""
        image, end, size = self.image, self._store.log_max, self._store.log.file_size
        if self._proposed or not self.image.complete or not self._leading:
            return False
        return end // size > image.snapshot // size and end - image.snapshot > GROWTH * image.snapshot_size
