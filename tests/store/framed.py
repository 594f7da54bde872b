"""The logs that a store must work with: the plain commitlog, and DLedger's."""

from pathlib import Path
from typing import Any

from ariane.dledger.storage.entry import ENTRY_HEADER, LedgerFraming
from ariane.dledger.storage.index import LedgerIndex
from ariane.dledger.storage.log import NO_LIMIT, LedgerLog
from ariane.env import Env, Files, ManualClock
from ariane.store import MessageStore, StoreOptions
from ariane.store.log import CommitLog, LogFactory
from ariane.store.log.allocate import Allocator
from ariane.testing.faults import MemoryFiles

ROOT = Path("/store")


def ledger(folder: Path, file_size: int, files: Files, allocator: Allocator, _: bool) -> LedgerLog:
    """DLedger's log; all that it holds counts as committed."""
    index = LedgerIndex(folder.parent / "ledger-index", files, file_units=64)
    return LedgerLog(folder, file_size, files, allocator, LedgerFraming(), index, -1, NO_LIMIT)


LOGS: dict[str, LogFactory] = {
    "plain": CommitLog,
    "ledger": ledger,
}
HEADERS = {"plain": 0, "ledger": ENTRY_HEADER.size}


def open_store(kind: str, files: MemoryFiles, clock: ManualClock | None = None, **changes: Any) -> MessageStore:
    """A store with small files on one of the logs."""
    small: dict[str, Any] = {
        "root": ROOT,
        "commitlog_file_size": 4096,
        "consumequeue_file_entries": 5,
        "index_slots": 20,
        "index_entries": 16,
        "flush": "SYNC_FLUSH",
    }
    env = Env(clock=clock or ManualClock(), files=files)
    store = MessageStore(StoreOptions(**small | changes), env, LOGS[kind])
    store.open()
    if isinstance(store.log, LedgerLog):
        store.log.show(NO_LIMIT)
    return store
