"""The logs that a store must work with: the plain commitlog, and one whose records have a header like DLedger's."""

from functools import partial
from pathlib import Path
from struct import Struct
from typing import Any, Final

from librt.strings import BytesWriter

from ariane.dledger.entry import LedgerFraming
from ariane.dledger.index import LedgerIndex
from ariane.dledger.log import NO_LIMIT, LedgerLog
from ariane.env import Env, Files, ManualClock
from ariane.store import MessageStore, StoreOptions
from ariane.store.log import CommitLog, LogFactory
from ariane.store.log.allocate import Allocator
from ariane.store.units.reading import END_OF_FILE, NOTHING, UNIT
from ariane.testing.faults import MemoryFiles

ROOT = Path("/store")
# magic, size, index, term, position, channel, chain crc, body crc, body length
HEADER: Final = Struct(">iiqqqiiii")


class EntryFraming:
    """48 bytes before each unit; the filler says its magic first and its size second."""

    @property
    def header(self) -> int:
        return HEADER.size

    def write_header(self, tail: BytesWriter, position: int, size: int) -> None:
        tail.write(HEADER.pack(1, HEADER.size + size, position, 1, position, 0, 0, 0, size))

    def filler(self, room: int) -> bytes:
        return Struct(">ii").pack(-1, room)

    def kind_at(self, memory: memoryview, at: int) -> int:
        if at + 8 > len(memory):
            return END_OF_FILE
        magic, size = Struct(">ii").unpack_from(memory, at)
        if magic == -1:
            return END_OF_FILE
        if magic != 1 or at + HEADER.size > len(memory):
            return NOTHING
        return UNIT if HEADER.unpack_from(memory, at)[8] + HEADER.size == size else NOTHING


def ledger(folder: Path, file_size: int, files: Files, allocator: Allocator, _: bool) -> LedgerLog:
    """DLedger's log; all that it holds counts as committed."""
    index = LedgerIndex(folder.parent / "ledger-index", files, file_units=64)
    return LedgerLog(folder, file_size, files, allocator, LedgerFraming(), index, -1, NO_LIMIT)


LOGS: dict[str, LogFactory] = {
    "plain": CommitLog,
    "entries": partial(CommitLog, framing=EntryFraming()),
    "ledger": ledger,
}
HEADERS = {"plain": 0, "entries": HEADER.size, "ledger": HEADER.size}


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
