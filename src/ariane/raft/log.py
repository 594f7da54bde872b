"""A member's log as the core sees it: which entries there are, which are durable, which are committed.

    start.index        persisted_index     commit_index        last_index
        |                    |                  |                  |
        v                    v                  v                  v
        [ on the disk ...... ][ given to the driver, not reported yet ][ not given yet ]

Committed entries need not be durable here: a majority has them. The terms of all entries are kept as runs, the newest
entries as they are; older ones are read from the driver.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ariane.raft.entry import Entry, LogStart
from ariane.raft.errors import SafetyViolation
from ariane.raft.membership import Membership
from ariane.raft.terms import Terms


class Write(NamedTuple):
    """Work for the driver's log files, in this order: discard all, truncate, append."""

    number: int  # reported back by `Node.persisted`
    reset: LogStart | None
    truncate_from: int | None  # remove this index and everything after it
    entries: tuple[Entry, ...]


def no_entry(index: int) -> Entry:
    """Read an entry of a log that has none on the disk."""
    raise KeyError(f"entry {index} is not on the disk")


class Log:
    """The entries of one member.

    At a restart give what recovery found: `last_index`, `read` for an entry by its index, the changes of membership
    among the entries, and an index known to be committed, if a checkpoint says one. `read` is later called for durable
    entries only.
    """

    def __init__(
        self,
        start: LogStart,
        last_index: int | None = None,
        read: Callable[[int], Entry] = no_entry,
        memberships: Iterable[Entry] = (),
        commit_index: int | None = None,
        cached_entries: int = 4096,
    ) -> None:
        self.start = start
        self.last_index = start.index - 1 if last_index is None else last_index
        self.persisted_index = self.last_index
        self.commit_index = max(start.index - 1, -1 if commit_index is None else commit_index)
        if self.commit_index > self.last_index:
            raise ValueError(
                f"entries up to {self.commit_index} were committed, but the log ends at {self.last_index}: "
                "entries are lost; start without a commit index and with an abstaining HardState"
            )
        self._read = read
        self._cached = cached_entries
        self._terms = Terms.search(start.index, start.previous_term, self.last_index, lambda index: read(index).term)
        self._memberships = [(entry.index, entry.membership) for entry in memberships if entry.membership]
        self._tail: list[Entry] = []  # the newest entries; the last is `last_index`
        self._reset: LogStart | None = None
        self._truncate_from: int | None = None
        self._given = self.last_index  # the last index given to the driver
        self._numbers = 0
        self._unreported: deque[tuple[int, int]] = deque()  # number and last index of each write

    # -- what it says ---------------------------------------------------------------------------------------

    @property
    def last_term(self) -> int:
        """The term of the last entry."""
        term = self.term(self.last_index)
        assert term is not None
        return term

    @property
    def membership(self) -> Membership:
        """The group of the newest membership entry, committed or not (dissertation, 4.1)."""
        return self._memberships[-1][1] if self._memberships else self.start.membership

    @property
    def membership_index(self) -> int:
        """The index of the entry that `membership` comes from."""
        return self._memberships[-1][0] if self._memberships else self.start.index - 1

    def may_lead(self, member: str) -> bool:
        """Test for a voter in the last committed membership or any later one.

        A member that an uncommitted entry removes may be needed to commit that entry (dissertation, 4.2.2).
        """
        return any(member in membership.voters for membership in self.memberships_in_doubt)

    @property
    def committed_membership(self) -> tuple[int, Membership]:
        """The newest membership that is committed for sure, and the index of its entry."""
        for index, membership in reversed(self._memberships):
            if index <= self.commit_index:
                return index, membership
        return self.start.index - 1, self.start.membership

    @property
    def memberships_in_doubt(self) -> list[Membership]:
        """The last committed membership and the later ones: any of them may be in force at another member."""
        later = [membership for index, membership in self._memberships if index > self.commit_index]
        return [self.committed_membership[1], *later]

    def term(self, index: int) -> int | None:
        """Return the term at `index`, also at the index before the first entry; None when it is not known."""
        return self._terms.at(index)

    def up_to_date(self, last_log_index: int, last_log_term: int) -> bool:
        """Test whether a candidate's log is at least as complete as this one (5.4.1)."""
        return (last_log_term, last_log_index) >= (self.last_term, self.last_index)

    def last_at_most(self, index: int, term: int) -> int:
        """Return the last index up to `index` with a term of at most `term`: where two logs can agree."""
        return self._terms.last_at_most(index, term)

    def entries(self, first: int, max_entries: int, max_bytes: int) -> tuple[Entry, ...]:
        """Return the entries from `first` on that fit the limits; the first one always fits."""
        taken: list[Entry] = []
        size = 0
        for index in range(first, min(first + max_entries, self.last_index + 1)):
            entry = self._entry(index)
            size += entry.size
            if taken and size > max_bytes:
                break
            taken.append(entry)
        return tuple(taken)

    def size_from(self, first: int, enough: int) -> int:
        """Return the size of the entries from `first` on, counted until it is `enough`."""
        size = 0
        for index in range(first, self.last_index + 1):
            size += self._entry(index).size
            if size >= enough:
                break
        return size

    def _entry(self, index: int) -> Entry:
        age = self.last_index - index
        return self._tail[-1 - age] if age < len(self._tail) else self._read(index)

    # -- changes --------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        for entry in entries:
            self._terms.append(entry.index, entry.term)
            if entry.membership:
                self._memberships.append((entry.index, entry.membership))
        self._tail.extend(entries)
        self.last_index = self._terms.last

    def truncate(self, index: int) -> None:
        """Remove `index` and everything after it. A committed entry is never removed."""
        if index <= self.commit_index:
            raise SafetyViolation(
                f"told to remove entries from {index} on, but entries up to {self.commit_index} are committed: "
                "stop this member and compare the logs of the group"
            )
        self._terms.truncate(index)
        del self._tail[max(0, len(self._tail) - (self.last_index - index + 1)) :]
        while self._memberships and self._memberships[-1][0] >= index:
            self._memberships.pop()
        self.last_index = index - 1
        if index <= self._given:
            self._truncate_from = index if self._truncate_from is None else min(index, self._truncate_from)
            self._given = index - 1
        self._durable_only_below(index)

    def reset(self, start: LogStart) -> None:
        """Discard the whole log and begin at `start`; everything before it is committed."""
        assert start.index - 1 > self.commit_index, "a log is reset only to get ahead"
        self._durable_only_below(0)
        self.start = self._reset = start
        self._truncate_from = None
        self._terms = Terms(start.index, start.previous_term)
        self._memberships.clear()
        self._tail.clear()
        self.last_index = self.commit_index = self._given = start.index - 1

    def _durable_only_below(self, index: int) -> None:
        """Limit pending writes to the entries before `index`: the removed ones do not become durable."""
        self.persisted_index = min(self.persisted_index, index - 1)
        self._unreported = deque((number, min(last, index - 1)) for number, last in self._unreported)

    def compact(self, start: LogStart) -> None:
        """Drop the entries before `start`, which the driver has deleted."""
        if start.index <= self.start.index:
            return
        if start.index > min(self.commit_index, self.persisted_index):
            raise ValueError(
                f"delete only committed entries that newer durable ones follow, not up to {start.index - 1}"
            )
        self._terms.forget(start.index)
        self._memberships = [change for change in self._memberships if change[0] >= start.index]
        self.start = start

    def start_at(self, index: int, position: int) -> LogStart:
        """Return the start of this log after the entries before `index` are deleted."""
        previous_term = self.term(index - 1)
        assert previous_term is not None, f"{index - 1} is not in the log"
        before = [membership for at, membership in self._memberships if at < index]
        return LogStart(before[-1] if before else self.start.membership, index, position, previous_term)

    def commit(self, index: int) -> None:
        """Raise the commit index; it never falls."""
        assert index <= self.last_index, f"commit of {index} beyond the end {self.last_index}"
        self.commit_index = max(self.commit_index, index)

    # -- the driver's writes --------------------------------------------------------------------------------

    def take_write(self) -> Write | None:
        """Return the work for the disk since the last call; None when there is none."""
        if self._given == self.last_index and self._reset is None and self._truncate_from is None:
            return None
        new = self.last_index - self._given
        self._numbers += 1
        write = Write(self._numbers, self._reset, self._truncate_from, tuple(self._tail[len(self._tail) - new :]))
        self._reset = self._truncate_from = None
        self._given = self.last_index
        self._unreported.append((write.number, self.last_index))
        return write

    def persisted(self, number: int) -> None:
        """Note that all writes up to `number` are durable."""
        while self._unreported and self._unreported[0][0] <= number:
            self.persisted_index = max(self.persisted_index, self._unreported.popleft()[1])
        if len(self._tail) > 2 * self._cached:
            durable = len(self._tail) - (self.last_index - self.persisted_index)
            del self._tail[: max(0, min(durable, len(self._tail) - self._cached))]
