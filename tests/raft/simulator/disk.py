"""A disk that keeps what was synced, and of the rest whatever it likes."""

from random import Random

from ariane.raft import NO_INDEX, Entry, HardState, Log, LogStart, Membership, Options

TORN = -1  # the position of an entry whose header is on the disk, but whose body is zeros from a page boundary on


class Disk:
    """The files of one member: the term file, replaced at once or not at all, and the log, written page by page.

    An entry's `position` stands for its bytes: every proposal has its own.
    """

    def __init__(self, membership: Membership, random: Random, checksums: bool = True) -> None:
        self.random = random
        self.checksums = checksums
        self.hard_state: HardState | None = HardState()
        self.start = LogStart(membership)
        self.entries: list[Entry] = []
        self.checkpoint = NO_INDEX  # what was committed, written now and then
        self.synced = NO_INDEX  # the last index that survives for sure
        self.log_lost = False  # whoever starts the member knows it, once; then the term file must say so
        self._storing: HardState | None = None
        self._syncing = NO_INDEX

    @property
    def last_index(self) -> int:
        """The last index written."""
        return self.start.index + len(self.entries) - 1

    @property
    def whole_index(self) -> int:
        """The last index that a restart would accept."""
        for number, entry in enumerate(self.entries):
            if self.checksums and entry.position == TORN:
                return self.start.index + number - 1
        return self.last_index

    def read(self, index: int) -> Entry:
        """Read one entry."""
        return self.entries[index - self.start.index]

    def begin_store(self, hard_state: HardState) -> None:
        """Write the term file; a power cut may or may not undo it before `end_store`."""
        self._storing = hard_state

    def end_store(self) -> HardState:
        """The term file is synced and renamed, and its folder synced."""
        assert self._storing
        self.hard_state, self._storing = self._storing, None
        self.log_lost = False
        return self.hard_state

    def append(self, entries: tuple[Entry, ...]) -> None:
        """Write entries, unsynced."""
        assert not entries or entries[0].index == self.last_index + 1
        self.entries.extend(entries)

    def begin_sync(self) -> None:
        """Start to make durable what is in the file now."""
        self._syncing = self.last_index

    def end_sync(self) -> None:
        """It is durable, unless it was removed meanwhile."""
        self.synced = max(self.synced, self._syncing)

    def truncate(self, index: int) -> None:
        """Remove `index` and everything after it, durably."""
        del self.entries[index - self.start.index :]
        self.synced = min(self.synced, self.last_index)
        self._syncing = min(self._syncing, self.last_index)

    def reset(self, start: LogStart) -> None:
        """Remove everything and begin at `start`, durably."""
        self.start = start
        self.entries.clear()
        self.synced = self._syncing = self.last_index

    def delete_before(self, start: LogStart) -> None:
        """Remove the oldest files."""
        del self.entries[: start.index - self.start.index]
        self.start = start

    def power_cut(self) -> int:
        """Lose or tear unsynced pages, in any order; return how many survived torn."""
        if self._storing and self.random.random() < 0.5:
            self.hard_state = self._storing
        self._storing = None
        torn = 0
        survivors = self.entries[: self.synced + 1 - self.start.index]
        for entry in self.entries[len(survivors) :]:
            fate = self.random.random()
            if fate < 0.3:
                break  # this page and all after it
            if fate < 0.5:
                torn += 1
                entry = Entry(entry.index, entry.term, TORN, entry.size)
            survivors.append(entry)
        self.entries = survivors
        self.synced = self._syncing = self.last_index
        return torn

    @property
    def abstaining(self) -> bool:
        """Whether something was lost and the member has not recovered."""
        return self.log_lost or self.hard_state is None or self.hard_state.abstaining

    def wipe(self, membership: Membership, term_file: bool) -> None:
        """The disk was replaced by an empty one; or only the one with the log, and the term file stays."""
        if not term_file:
            self.hard_state = None
        self.log_lost = True
        self.checkpoint = NO_INDEX
        self.reset(LogStart(membership))

    def recover(self, options: Options) -> tuple[Log, HardState]:
        """Open the files after a crash: cut the log at the first entry whose checksum is wrong."""
        self.truncate(self.whole_index + 1)
        log = Log(self.start, self.last_index, self.read, self.entries, self.checkpoint, options.cached_entries)
        return log, (self.hard_state or HardState())._replace(abstaining=self.abstaining)
