"""The files of one member: `<root>/dledger-<id>` with `data`, `index`, `currterm` and `checkpoint`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ariane.dledger.storage.entry import ENTRY_HEADER, INDEX_FILE_UNITS, LedgerFraming
from ariane.dledger.storage.index import LedgerIndex
from ariane.dledger.storage.log import LedgerLog
from ariane.dledger.storage.members_file import MembersFile, Stored
from ariane.dledger.storage.plain_part import PlainPart
from ariane.dledger.storage.state_files import (
    LedgerCheckpoint,
    load_checkpoint,
    load_hard_state,
    save_checkpoint,
    save_hard_state,
)
from ariane.env import Files
from ariane.protocol.checksum import crc32
from ariane.raft import Entry, HardState, LogStart, Membership
from ariane.raft import Log as RaftLog
from ariane.store.layout import log_names
from ariane.store.log.allocate import Allocator
from ariane.store.recovery.load import commitlog_file_size


def ledger_folder(root: Path, member: str) -> Path:
    """The folder of a member's ledger."""
    return root / f"dledger-{member}"


class LedgerFiles:
    """Opens a member's files. `make_log` creates the log of its store; the rest is known when that store is open."""

    def __init__(
        self, folder: Path, files: Files, plain: Path | None = None, *, index_file_units: int = INDEX_FILE_UNITS
    ) -> None:
        """`plain` is the folder of the commitlog of a broker that ran without DLedger before, if there may be one."""
        self.folder = folder
        self.log: LedgerLog
        self._files = files
        self._index_file_units = index_file_units
        self._currterm = folder / "currterm"
        self._checkpoint = folder / "checkpoint"
        self._plain = None if plain is None else PlainPart(plain, folder / "converted", files)
        self.members = MembersFile(files, folder / "members")
        """The configurations of the group that this member knows."""

    def make_log(self, data: Path, file_size: int, files: Files, allocator: Allocator, _: bool) -> LedgerLog:
        """Make the log, to be loaded by the store. A ledger that continues a plain log has files of the same size."""
        if self._plain is not None and not log_names(files, data):
            file_size = commitlog_file_size(files, self._plain.folder, file_size, [])
        checkpoint = load_checkpoint(files, self._checkpoint)
        index = LedgerIndex(self.folder / "index", files, self._index_file_units)
        self.log = LedgerLog(
            data,
            file_size,
            files,
            allocator,
            LedgerFraming(),
            index,
            checkpoint.end_index,
            checkpoint.committed_index,
            self._plain,
        )
        return self.log

    def hard_state(self) -> HardState | None:
        """Term and vote; abstaining when files of this member are lost; None when the member has never run."""
        found = load_hard_state(self._files, self._currterm)
        if found is not None:
            return found._replace(abstaining=True) if self.log.lost_committed else found
        new = self.log.last_index < 0 and not self._files.exists(self._checkpoint)
        return None if new else HardState(abstaining=True)

    def raft_log(self, membership: Membership, cached_entries: int) -> RaftLog:
        """The log as the core sees it. The term before the first entry is unknown, so it begins one entry later.

        `membership` is in force if no configuration is stored.
        """
        log, members = self.log, self.members
        if log.lost_committed and members.stored:  # the newest known one says most about the group as it is
            members.begin(members.stored[-1].membership)
        members.keep(self._in_log)
        start_index = log.first_index + 1 if log.last_index >= 0 and log.first_index > 0 else 0
        before = [stored.membership for stored in members.stored if stored.index < start_index]
        start = LogStart(before[-1] if before else membership)
        if start_index:
            first = log.index.get(log.first_index)
            assert first is not None
            start = LogStart(start.membership, start_index, first[0] + first[1], first[2])
        changes = [
            Entry(stored.index, stored.term, 0, 0, stored.membership)
            for stored in members.stored
            if stored.index >= start_index
        ]
        last = max(log.last_index, start.index - 1)
        return RaftLog(
            start,
            last,
            self.entry,
            changes,
            commit_index=max(log.committed_index, -1),
            cached_entries=cached_entries,
        )

    def _in_log(self, stored: Stored) -> bool:
        """Whether the entry of a configuration is in the log, or was and retention has deleted it."""
        if stored.index < max(self.log.first_index, 0):
            return True
        found = self.log.index.get(stored.index) if stored.index <= self.log.last_index else None
        return found is not None and found[2] == stored.term

    @property
    def beginning(self) -> str:
        """A checksum of the first entry of all; empty when it was deleted, or is not committed."""
        log = self.log
        found = log.index.get(0) if log.first_index == 0 else None
        if found is None or found[0] + found[1] > log.visible:
            return ""
        record = log.record(found[0], found[1])
        return "" if record is None else f"{crc32(memoryview(record)[ENTRY_HEADER.size :]):08x}"

    def entry(self, index: int) -> Entry:
        """An entry of the log by its index."""
        found = self.log.index.get(index)
        if found is None:
            raise KeyError(f"entry {index} is not in the ledger")
        position, size, term = found
        return Entry(index, term, position, size)

    def records(self, entries: Sequence[Entry]) -> bytes | None:
        """The bytes of consecutive entries, given with their positions or -1; None when one was deleted."""
        parts: list[bytes | None] = []
        start = end = 0  # of the entries that follow each other in one file: they are read at once
        for entry in entries:
            if entry.position < 0:
                try:
                    entry = self.entry(entry.index)
                except KeyError:
                    return None
            if entry.position != end:
                if start < end:
                    parts.append(self.log.record(start, end - start))
                start = entry.position
            end = entry.position + entry.size
        if start < end:
            parts.append(self.log.record(start, end - start))
        known = [part for part in parts if part is not None]
        return b"".join(known) if len(known) == len(parts) else None

    def save_hard_state(self, state: HardState) -> None:
        """Store term and vote durably; blocks."""
        self._files.make_folder(self.folder)
        save_hard_state(self._files, self._currterm, state)

    def checkpoint_job(self, end_index: int, committed_index: int) -> Callable[[], None]:
        """The job that stores a checkpoint; runs in a thread."""

        def job() -> None:
            save_checkpoint(self._files, self._checkpoint, LedgerCheckpoint(end_index, committed_index))

        return job
