"""The progress of delay levels on the disk: delayOffset.json and its journal."""

import asyncio
import logging
from collections.abc import Iterator

from ariane.broker.delay.delivery import Delay
from ariane.broker.periodic import Periodic
from ariane.broker.tables.persistence import JOURNAL_INTERVAL, Persistence
from ariane.env import Clock
from ariane.store import MessageStore

log = logging.getLogger("ariane.broker.delay")


class DelayProgress:
    """Saves the offset that each level has delivered, once the delivered messages are on the disk.

    In the opposite order a power cut would lose a message that counts as delivered.
    """

    def __init__(
        self, delay: Delay, store: MessageStore, persistence: Persistence, clock: Clock, *, interval: float
    ) -> None:
        self._delay = delay
        self._store = store
        self._clock = clock
        self._interval = interval
        self._snapshot = b""  # progress whose messages are on the disk
        self._journaled = b""  # the same, as last appended to the journal
        self._file = persistence.journaled(
            "delayOffset.json", lambda: self._snapshot, self._load, self._take_changes, self._load
        )

        store.on_cut.append(self._cut)

    def _cut(self, end: int) -> None:
        """Deliver messages again whose delivered copies were truncated at `end`."""
        self._delay.take_back(end, self._snapshot)

    def load(self) -> None:
        """Read the progress of the last run; offsets outside of their queue are moved to its nearest end."""
        self._file.load()
        self._delay.correct()

    async def copy(self, text: bytes) -> None:
        """Take a master's progress. The caller has made sure that the delivered messages are in the log here."""
        if text != self._delay.encode():
            self._delay.copy(text)
            await self.save()

    def now(self) -> bytes:
        """The progress as it is; the delivered messages are in the log, not necessarily durable."""
        return self._delay.encode()

    def take(self, text: bytes) -> None:
        """Take the progress that the log of a DLedger group has recorded, after the delivered messages."""
        self._load(text)

    async def save(self) -> None:
        """Write delayOffset.json."""
        if await self._take_snapshot():
            await self._file.save()

    async def append(self) -> None:
        """Append the progress to the journal if it changed."""
        if self._delay.encode() != self._snapshot and await self._take_snapshot():
            await self._file.append()

    def periodics(self) -> Iterator[Periodic]:
        """The work that repeats."""
        yield Periodic(self._clock, JOURNAL_INTERVAL, self.append, name="append delay offsets to the journal")
        yield Periodic(self._clock, self._interval, self.save, name="save delay offsets")

    async def _take_snapshot(self) -> bool:
        snapshot, end = self._delay.encode(), self._delay.durable_end()
        flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._store.when_flushed(end, lambda ok: None if flushed.done() else flushed.set_result(ok))
        if not await flushed:
            log.warning("delay offsets are not saved: the log is not flushed up to %d", end)
            return False
        self._snapshot = snapshot
        return True

    def _load(self, data: bytes) -> None:
        self._delay.load(data)
        self._snapshot = self._delay.encode()

    def _take_changes(self) -> bytes:
        if self._snapshot == self._journaled:
            return b""
        self._journaled = self._snapshot
        return self._snapshot
