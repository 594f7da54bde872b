"""The tables that outlive the process, as the files of RocketMQ's config folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ariane.broker.periodic import Periodic
from ariane.env import Files
from ariane.errors import ProtocolError
from ariane.protocol.bodies import ConsumerOffsetTable, SubscriptionGroupTable, TopicConfigTable
from ariane.store import ConfigFile

if TYPE_CHECKING:
    from ariane.broker.server import Broker

log = logging.getLogger("ariane.broker")

RETRY = 5.0  # seconds until a write that failed is tried again


class KeptTable:
    """One table and its file: `encode` gives its bytes, `decode` takes those of the last run."""

    def __init__(self, files: Files, path: Path, encode: Callable[[], bytes], decode: Callable[[bytes], None]) -> None:
        self._file = ConfigFile(path, files)
        self._encode = encode
        self._decode = decode
        self.dirty = False
        self._saving: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], None]] = []

    def load(self) -> None:
        """Take over the last run's table, or that of its backup when the file is damaged."""
        self._file.load(self._read)

    def _read(self, text: str) -> None:
        try:
            self._decode(text.encode())
        except ProtocolError as error:
            raise ValueError(str(error)) from None

    def save_soon(self) -> None:
        """Write in the background; many calls in a row make at most two writes."""
        self.dirty = True
        if self._saving is None:
            self._saving = asyncio.get_running_loop().create_task(self._save_until_clean())

    @property
    def is_saving(self) -> bool:
        """Whether a change is not on the disk yet."""
        return self._saving is not None

    def when_saved(self, done: Callable[[], None]) -> None:
        """Call `done` when what was changed until now is written, or could not be; at once when nothing is due."""
        if self._saving is None:
            done()
        else:
            self._waiting.append(done)

    async def saved(self) -> None:
        """Wait for a write that is due or under way."""
        if self._saving is not None:
            await asyncio.shield(self._saving)

    async def save_aside(self) -> None:
        """Write whether or not anything changed, and wait for it."""
        await self.saved()
        await self._write()

    async def save_if_dirty(self) -> None:
        """Write what could not be written before."""
        if self.dirty and self._saving is None:
            await self._write()

    async def _save_until_clean(self) -> None:
        failed = False
        while self.dirty and not failed:
            waiting, self._waiting = self._waiting, []
            failed = not await self._write()
            for done in waiting:
                done()
        self._saving = None
        for done in self._waiting:
            done()
        self._waiting = []

    async def _write(self) -> bool:
        """A failure is logged; the table stays dirty and is tried again."""
        text = self._encode().decode()
        self.dirty = False
        try:
            await asyncio.to_thread(self._file.save, text)
        except OSError:
            self.dirty = True
            log.exception("%s could not be written", self._file.path)
        return not self.dirty


class Persistence:
    """Topics and groups are written when they change, offsets each few seconds, all of them at the end.

    Writing happens in a thread: a file synced to the disk takes long enough for hundreds of messages.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._files = broker.env.files
        self._folder = Path(broker.options.store_path_root_dir) / "config"
        self._offsets = broker.offsets
        topics, groups, offsets = broker.topics, broker.groups, broker.offsets
        self.topics = self.table(
            "topics.json", lambda: topics.table().encode(), lambda b: topics.load(TopicConfigTable.decode(b))
        )
        self.groups = self.table(
            "subscriptionGroup.json",
            lambda: groups.table().encode(),
            lambda b: groups.load(SubscriptionGroupTable.decode(b)),
        )
        self.offsets = self.table(
            "consumerOffset.json",
            lambda: offsets.table().encode(),
            lambda b: offsets.load(ConsumerOffsetTable.decode(b)),
        )
        topics.on_change.append(lambda _: self.topics.save_soon())
        groups.on_change.append(lambda _: self.groups.save_soon())

    def table(self, name: str, encode: Callable[[], bytes], decode: Callable[[bytes], None]) -> KeptTable:
        """A table kept in a file of the config folder; the caller loads and saves it."""
        return KeptTable(self._files, self._folder / name, encode, decode)

    def load(self) -> None:
        for table in (self.topics, self.groups, self.offsets):
            table.load()

    async def save_all(self) -> None:
        for table in (self.topics, self.groups, self.offsets):
            await table.save_aside()

    async def save_offsets(self) -> None:
        if self._offsets.dirty:
            self._offsets.dirty = False
            self.offsets.dirty = True
        await self.offsets.save_if_dirty()

    async def _save_failed(self) -> None:
        for table in (self.topics, self.groups):
            await table.save_if_dirty()

    def periodics(self) -> Iterator[Periodic]:
        clock, options = self._broker.env.clock, self._broker.options
        yield Periodic(clock, options.flush_consumer_offset_interval_ms / 1000, self.save_offsets, name="save offsets")
        yield Periodic(clock, RETRY, self._save_failed, name="save tables that could not be saved")
