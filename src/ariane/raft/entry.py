"""An entry as the core sees it: its position in the log and on the disk, not its content."""

from dataclasses import dataclass

from ariane.raft.membership import Membership

NO_INDEX = -1  # the index before the first entry of a log; entries count from 0, as DLedger's do
NO_TERM = -1  # the term at that index; below the term of every entry


class Entry:
    """One entry of the log; it never changes. The driver keeps its bytes: `size` bytes at `position` of its files.

    A plain class: compiled, a dataclass takes ten times as long to make, and there is one for each message.
    """

    __slots__ = ("index", "membership", "position", "size", "term")

    def __init__(self, index: int, term: int, position: int, size: int, membership: Membership | None = None) -> None:
        self.index = index
        self.term = term
        self.position = position
        self.size = size
        self.membership = membership
        """Set when the entry changes the group."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and (
            (self.index, self.term, self.position, self.size, self.membership)
            == (other.index, other.term, other.position, other.size, other.membership)
        )

    def __hash__(self) -> int:
        return hash((self.index, self.term, self.position))

    def __repr__(self) -> str:
        return f"Entry({self.index}, {self.term}, {self.position}, {self.size}, {self.membership!r})"

    def __str__(self) -> str:
        return f"{self.index}/{self.term}" + (f" ({self.membership})" if self.membership else "")


@dataclass(frozen=True, slots=True)
class LogStart:
    """The start of a log, and the state there.

    A new log begins at index 0. A log whose oldest entries were deleted begins later; `previous_term` and
    `membership` are then those of the last deleted entries.
    """

    membership: Membership
    index: int = 0
    position: int = 0
    previous_term: int = NO_TERM
