"""The tables that survive a restart, stored as the files of RocketMQ's config folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from ariane.broker.config import BrokerOptions
from ariane.broker.periodic import Periodic
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.journal import Journal
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.topics import TopicTable
from ariane.env import Clock, Files
from ariane.errors import ProtocolError, ResponseError
from ariane.protocol.bodies import ConsumerOffsetTable, SubscriptionGroupTable, TopicConfigTable
from ariane.protocol.codes import ResponseCode
from ariane.store import ConfigFile

log = logging.getLogger("ariane.broker")

RETRY = 5.0  # seconds until a failed write is tried again
LARGEST_JOURNAL = 8 << 20  # bytes after which the whole file is written, whatever its interval
JOURNAL_INTERVAL = 1.0  # seconds of committed offsets that a kill of the process may lose
NOT_CONFIRMED = "the outcome is unknown: a majority of the DLedger group has not confirmed the change; try again"

Done = Callable[[bool], None]


class Promise(Protocol):
    """What requests that change a table wait for, in place of its file: in a DLedger group, a majority."""

    @property
    def is_kept(self) -> bool:
        """Whether every change so far is kept."""
        ...

    def when_kept(self, done: Done) -> None:
        """Call `done(True)` when every change so far is kept, `done(False)` when that is not known."""
        ...


class KeptTable:
    """One table and its file. `encode` returns the table's bytes, `decode` takes those of the last run.

    Each change has a number. Only one task writes: the file and its `.tmp` never have two writers. A waiter is
    called when the file holds the waiter's change, not just when a write ends.
    """

    def __init__(self, files: Files, path: Path, encode: Callable[[], bytes], decode: Callable[[bytes], None]) -> None:
        self._file = ConfigFile(path, files)
        self._encode = encode
        self._decode = decode
        self._changed = 0  # number of the newest change
        self._written = 0  # number of the newest change that is on the disk
        self._waiting: list[tuple[int, Done]] = []
        self._writer: asyncio.Task[None] | None = None
        self.promise: Promise | None = None
        """What requests wait for in place of the file; None: the file."""

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def load(self) -> None:
        """Read the last run's table, or its backup when the file is damaged."""
        self._file.load(self._read)

    def _read(self, text: str) -> None:
        try:
            self._decode(text.encode())
        except ProtocolError as error:
            raise ValueError(str(error)) from None

    def save_soon(self) -> None:
        """Count a change and write it in the background; changes during a write share the next one."""
        self._changed += 1
        self._start_writer()

    @property
    def is_saved(self) -> bool:
        """Whether every change so far is kept as promised: on the disk, or by a majority."""
        return self._written == self._changed if self.promise is None else self.promise.is_kept

    def when_saved(self, done: Done) -> None:
        """Call `done(True)` when every change so far is kept as promised, `done(False)` when that failed.

        A change whose write failed before is tried again.
        """
        if self.promise is None:
            self._when_written(done)
        else:
            self.promise.when_kept(done)

    def _when_written(self, done: Done) -> None:
        if self._written == self._changed:
            done(True)
        else:
            self._waiting.append((self._changed, done))
            self._start_writer()

    async def saved(self) -> bool:
        """Wait until every change so far is on the disk; False when a write of it failed."""
        return await _outcome(self._when_written)

    async def confirm(self) -> None:
        """Return when every change so far is kept as promised; ResponseError when that failed."""
        if await _outcome(self.when_saved):
            return
        if self.promise is not None:
            remark = NOT_CONFIRMED
        else:
            remark = (
                f"changed in memory, but {self.path.name} could not be written: see the broker's log, then try again"
            )
        raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)

    async def confirm_copies(self) -> None:
        """The same in a DLedger group; elsewhere the file is written in the background, and nothing waits for it."""
        if self.promise is not None:
            await self.confirm()

    async def save(self) -> bool:
        """Write the table as it is now, and wait for it."""
        self.save_soon()
        return await self.saved()

    async def retry(self) -> None:
        """Write again what could not be written before."""
        await self.saved()

    def _start_writer(self) -> None:
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_changes(), name=f"write {self.path}")

    async def _write_changes(self) -> None:
        """Write until the file holds the newest change; stop at a failure, log it and fail all waiters."""
        try:
            while self._written < self._changed:
                number = self._changed
                await self._write()
                self._written = number
                self._answer(number, True)
        except Exception:
            log.exception("%s could not be written; it is tried again", self.path)
        finally:
            self._writer = None
            self._answer(self._changed, False)

    def _answer(self, number: int, ok: bool) -> None:
        due = [done for change, done in self._waiting if change <= number]
        self._waiting = [(change, done) for change, done in self._waiting if change > number]
        for done in due:
            done(ok)

    async def _write(self) -> None:
        """Write the table as it is when this is called."""
        data = self._encode()
        await asyncio.to_thread(lambda: self._file.save(data.decode()))


async def _outcome(wait: Callable[[Done], None]) -> bool:
    result: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    wait(lambda ok: None if result.done() else result.set_result(ok))
    return await result


class JournaledTable(KeptTable):
    """A table that changes all the time: changes are appended to a journal, and the whole file is written seldom.

    `changes` returns what changed since it was last called, empty bytes for nothing; `apply` takes such bytes. The
    file is complete after `save`, so that Apache's broker, which knows no journal, opens the folder after a clean stop.
    """

    def __init__(
        self,
        files: Files,
        path: Path,
        encode: Callable[[], bytes],
        decode: Callable[[bytes], None],
        changes: Callable[[], bytes],
        apply: Callable[[bytes], None],
    ) -> None:
        super().__init__(files, path, encode, decode)
        self._changes = changes
        self._apply = apply
        self._journal = Journal(files, path.with_suffix(".journal"))
        self._whole = False

    def load(self) -> None:
        """Read the file, apply the journal that continues it, and fold the result into the file."""
        super().load()
        records = self._journal.records(self._file.text)
        for number, record in enumerate(records):
            try:
                self._apply(record)
            except (ProtocolError, ValueError) as error:
                log.error("%s: record %d and later are not used: %s", self._journal.path, number, error)
                break
        self._changes()  # nothing to append: the file written below holds it
        if records:
            try:
                self._replace(self._encode())
            except OSError as error:  # the journal stays as it is, and the next write is a whole one
                self._whole = True
                log.error("%s: not folded into %s: %s", self._journal.path, self.path.name, error)
            else:
                log.info("%s: %d records folded into %s", self._journal.path, len(records), self.path.name)
        else:
            self._journal.restart(self._file.text)

    def save_soon(self) -> None:
        self._whole = True
        super().save_soon()

    async def append(self) -> bool:
        """Append the newest changes to the journal, and wait for it."""
        self._changed += 1
        return await self.saved()

    async def _write(self) -> None:
        whole, self._whole = self._whole or self._journal.size > LARGEST_JOURNAL, False
        changes = self._changes()
        try:
            if whole:
                await asyncio.to_thread(self._replace, self._encode())
            elif changes:
                await asyncio.to_thread(self._journal.append, changes)
        except BaseException:
            self._whole = True  # the changes were taken from the table: only a whole write can save them now
            raise

    def _replace(self, data: bytes) -> None:
        self._file.save(data.decode())
        self._journal.restart(self._file.text)


class Persistence:
    """Topics and groups are written when they change, offsets each second to a journal, all of them at the end.

    Writing happens in a thread: a sync to the disk takes as long as hundreds of messages.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        options: BrokerOptions,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
    ) -> None:
        self._files = files
        self._clock = clock
        self._folder = Path(options.store_path_root_dir) / "config"
        self._offsets_interval = options.flush_consumer_offset_interval_ms / 1000
        self._offsets = offsets
        self.topics = self.table(
            "topics.json", lambda: topics.table().encode(), lambda b: topics.load(TopicConfigTable.decode(b))
        )
        self.groups = self.table(
            "subscriptionGroup.json",
            lambda: groups.table().encode(),
            lambda b: groups.load(SubscriptionGroupTable.decode(b)),
        )
        self.offsets = self.journaled(
            "consumerOffset.json",
            lambda: offsets.table().encode(),
            lambda b: offsets.load(ConsumerOffsetTable.decode(b)),
            offsets.take_changes,
            offsets.apply_changes,
        )
        topics.on_change.append(lambda _: self.topics.save_soon())
        groups.on_change.append(lambda _: self.groups.save_soon())

    def table(self, name: str, encode: Callable[[], bytes], decode: Callable[[bytes], None]) -> KeptTable:
        """A table kept in a file of the config folder; the caller loads and saves it."""
        return KeptTable(self._files, self._folder / name, encode, decode)

    def journaled(
        self,
        name: str,
        encode: Callable[[], bytes],
        decode: Callable[[bytes], None],
        changes: Callable[[], bytes],
        apply: Callable[[bytes], None],
    ) -> JournaledTable:
        """A table kept in a file with a journal; the caller loads and saves it."""
        return JournaledTable(self._files, self._folder / name, encode, decode, changes, apply)

    def load(self) -> None:
        for table in (self.topics, self.groups, self.offsets):
            table.load()

    async def save_all(self) -> None:
        for table in (self.topics, self.groups, self.offsets):
            await table.save()

    async def save_offsets(self) -> None:
        """Write consumerOffset.json if an offset changed since it was last written."""
        if self._offsets.dirty:
            self._offsets.dirty = False
            if not await self.offsets.save():
                self._offsets.dirty = True

    async def append_offsets(self) -> None:
        """Append the offsets that changed since the last call to the journal."""
        if self._offsets.has_changes:
            await self.offsets.append()

    async def _retry(self) -> None:
        for table in (self.topics, self.groups):
            await table.retry()

    def periodics(self) -> Iterator[Periodic]:
        """The work that repeats."""
        yield Periodic(self._clock, JOURNAL_INTERVAL, self.append_offsets, name="append offsets to the journal")
        yield Periodic(self._clock, self._offsets_interval, self.save_offsets, name="save offsets")
        yield Periodic(self._clock, RETRY, self._retry, name="save tables whose write failed")
