"""Does the core's writes, of entries and of term and vote, and reports when they are durable."""

import asyncio
import logging
from collections import deque
from typing import Protocol

from ariane.dledger.peers.native import Records
from ariane.dledger.storage.files import LedgerFiles
from ariane.dledger.storage.members_file import Stored
from ariane.raft import HardState, LogStart, Write
from ariane.store import MessageStore

log = logging.getLogger("ariane.dledger")


class WriteListener(Protocol):
    """Told what has become durable."""

    def persisted(self, number: int) -> None:
        """The log writes up to this number are durable."""
        ...

    def vote_stored(self, state: HardState) -> None:
        """Term and vote are durable."""
        ...

    def fail_write(self, what: str, error: OSError) -> None:
        """A write failed; it may succeed later."""
        ...

    def freeze(self, reason: str, until: str = "") -> None:
        """A write failed; `until` names the store's problem that must be cleared first."""
        ...


class LedgerWriter:
    """Writes to the files of one member. Syncing and storing a vote run in threads; one of each at a time."""

    def __init__(self, files: LedgerFiles, store: MessageStore, listener: WriteListener, durable: bool = True) -> None:
        self._files = files
        self._store = store
        self._listener = listener
        self._durable = durable
        """Whether a write is reported when it is synced; otherwise at once."""
        self._unsynced: deque[tuple[int, int]] = deque()  # number of a write, and the end of the log after it
        self._syncing = False
        self._sync_to = 0  # the number of the last write to sync
        self._votes: deque[HardState] = deque()
        self._voting = False
        self._stopped = False

    @property
    def storing_vote(self) -> bool:
        """Whether a term and vote is on its way to the disk."""
        return self._voting

    def forget(self) -> None:
        """Forget the writes of a core that is replaced."""
        self._unsynced.clear()
        self._sync_to = 0
        self._votes.clear()

    def stop(self) -> None:
        """Report nothing any more."""
        self._stopped = True

    # -- term and vote ------------------------------------------------------------------------------------------------

    def store_vote(self, state: HardState) -> None:
        """Store term and vote, and report it."""
        self._votes.append(state)
        self._store_vote()

    def _store_vote(self) -> None:
        if self._voting or not self._votes:
            return
        self._voting = True
        state = self._votes[-1]  # superseded: an older one need not be stored
        self._votes.clear()
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._files.save_hard_state, state))

        def stored(done: asyncio.Task[None]) -> None:
            self._voting = False
            if done.cancelled() or self._stopped:
                return
            error = done.exception()
            if isinstance(error, OSError):
                self._listener.fail_write("term and vote could not be stored", error)
                return
            if error is not None:
                self._listener.freeze(f"term and vote could not be stored: {error}")
                return
            self._listener.vote_stored(state)
            self._store_vote()

        task.add_done_callback(stored)

    # -- entries ------------------------------------------------------------------------------------------------------

    def write(self, write: Write, incoming: Records) -> None:
        """Change the log's files; `sync` makes that durable. `incoming` has the bytes of new entries."""
        ledger = self._files.log
        if write.reset is not None:
            self._reset(write.reset, incoming)
        if write.truncate_from is not None:
            end = ledger.end_of(write.truncate_from - 1)
            self._unsynced = deque((number, min(at, end)) for number, at in self._unsynced)
            self._store.truncate(end)
            removed_from = write.truncate_from
            self._files.members.keep(lambda stored: stored.index < removed_from)
        for entry in write.entries:
            if entry.index > ledger.last_index:
                if entry.membership is not None:
                    self._files.members.put(Stored(entry.index, entry.term, entry.membership))
                record = incoming.get((entry.index, entry.term))
                if record is None:
                    raise ValueError(f"entry {entry.index} of term {entry.term} did not come with its message")
                ledger.append_entry(record)
        ledger.commit()
        if not self._durable:
            asyncio.get_running_loop().call_soon(self._report, write.number)
            return
        self._unsynced.append((write.number, ledger.stored))

    def _reset(self, start: LogStart, incoming: Records) -> None:
        """The leader has deleted entries that this member lacks: start over with the entry before `start`."""
        record = incoming.get((start.index - 1, start.previous_term))
        if record is None:
            raise ValueError(f"entry {start.index - 1} did not come with the order to begin after it")
        ledger = self._files.log
        log.warning("the group has deleted what this member lacks: its log begins again at entry %d", start.index - 1)
        if ledger.divide:
            log.warning("the plain commitlog before the ledger is deleted too: the log has no gaps")
        self._unsynced.clear()
        members, last = self._files.members, start.index - 1
        members.put(Stored(last, start.previous_term, start.membership))  # beside the old ones: a crash may come
        self._store.restart_log(ledger.clear, start.position - len(record))
        ledger.append_entry(record)
        ledger.commit()
        members.keep(lambda stored: stored.index == last)
        ledger.show(ledger.stored)

    def sync(self) -> None:
        """Make the writes so far durable, and report it; several share one sync."""
        if self._unsynced:
            self._sync_to = self._unsynced[-1][0]
            self._begin_sync()

    def _begin_sync(self) -> None:
        if self._syncing or not self._unsynced or self._unsynced[0][0] > self._sync_to:
            return
        self._syncing = True
        self._store.flusher.wait(self._unsynced[-1][1], self._synced)

    def _synced(self, ok: bool) -> None:
        self._syncing = False
        if self._stopped:
            return
        if not ok and "flush" in self._store.health.reasons:
            self._listener.freeze("the disk fails", "flush")
            return
        flushed, number = self._files.log.flushed, 0
        while self._unsynced and self._unsynced[0][1] <= flushed:
            number = self._unsynced.popleft()[0]
        self._begin_sync()
        if number:
            self._listener.persisted(number)

    def _report(self, number: int) -> None:
        if not self._stopped:
            self._listener.persisted(number)
