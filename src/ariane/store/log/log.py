"""The interface between a store and its log.

Appender, dispatch, flush, recovery, retention and readers use a log through `Log` alone, so that a replicated log can
take the place of the plain commitlog. A log is a sequence of records in files of one size; a record is a message unit,
preceded by `header` bytes that belong to the log. Offsets count bytes from the beginning of the first file ever.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from librt.strings import BytesWriter

from ariane.env import Files
from ariane.store.log.allocate import Allocator
from ariane.store.log.log_file import LogFile, LogSegment


class Log(ABC):
    """Records addressed by offset: appended at the end, readable before `end`.

    - `min_offset`: where the oldest file begins; -1 when there is no file.
    - `end`: where reading stops; always the end of a record or of a file.
    - `stored`: the end of the bytes in the files. A replicated log lets readers see less: `end <= stored`.
    - `written`: the end of all appended bytes. Those after `stored` stay in `tail` until `commit`.
    - `flushed`: the end of the durable bytes. `flushed <= stored <= written`.

    Everything runs on the thread of the event loop, except the job of `sync_job`.
    """

    def __init__(self, folder: Path, file_size: int, header: int, *, transient: bool) -> None:
        self.folder = folder
        self.file_size = file_size
        self.header = header
        """Bytes of a record before its unit, for records that are appended. The physical offset of a unit is that of
        its record + `header`; see `header_of`."""
        self.transient = transient
        """Whether `commit` is only called at intervals (RocketMQ's transient store pool)."""
        self.min_offset = -1
        self.end = 0
        self.stored = 0
        self.written = 0
        self.flushed = 0
        self.checked_end = -1
        """Set by `load` of a log that has found its own end: recovery puts the units up to here into queues, and
        leaves what follows alone. -1: recovery finds the end."""
        self.tail = BytesWriter()

    # -- opening and closing --------------------------------------------------------------------------------------

    @abstractmethod
    def load(self) -> None:
        """Open the files that are there. `end` is the end of the last one until `truncate` sets the real end."""

    @abstractmethod
    def close(self) -> None:
        """Close all files. Slices that readers hold stay readable."""

    # -- appending ------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def largest_unit(self) -> int:
        """The size of the largest unit, or of all units of a batch together with their headers but the first."""

    @abstractmethod
    def reserve(self, size: int) -> int:
        """The physical offset of the next unit, of `size` bytes, which the caller now writes to `tail`.

        Raises OSError when there is no room for it.
        """

    @abstractmethod
    def make_room(self, size: int, count: int) -> None:
        """Place the next `count` units, `size` bytes together, into one file. Raises OSError like `reserve`."""

    def cancel(self, at: int) -> None:
        """Undo the reservation of the unit at `at` and of all after it; they must not be committed yet."""
        at -= self.header
        self.tail.truncate(at - self.stored)
        self.written = at

    @abstractmethod
    def commit(self) -> bool:
        """Move what was appended from `tail` to the files, where readers see it. True when there was something."""

    @abstractmethod
    def append_raw(self, at: int, data: bytes | memoryview) -> bool:
        """Append bytes of another copy of this log: records, headers, fillers. They are readable at once.

        False when the log does not end at `at`. An empty log begins with the file that holds `at`.
        """

    @abstractmethod
    def start_next(self) -> None:
        """Continue in a new file, full or not; raises OSError when the disk has no room for it."""

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def span(self, at: int) -> tuple[int, int, memoryview] | None:
        """The file that holds `at`: its first offset, the end of its readable part, and all its bytes."""

    @abstractmethod
    def view(self, at: int, size: int) -> memoryview | None:
        """Readable bytes without a copy; None when they are not (or no longer) there."""

    def raw(self, at: int, most: int) -> memoryview | None:
        """Stored bytes from `at` on without a copy, readable or not yet: at most `most`, and not across a file."""
        span = self.span(at)
        if span is None:
            return None
        base, end, memory = span
        return memory[at - base : min(end, at + most) - base]

    @abstractmethod
    def next_unit(self, at: int) -> int:
        """The physical offset of the first unit whose record begins at or after `at`, a record's end; -1 when none."""

    def header_of(self, at: int) -> int:
        """Bytes before the unit of the record that holds offset `at`; old files may be of a log without headers."""
        return self.header

    @abstractmethod
    def kind_at(self, file: LogSegment, at: int) -> int:
        """What begins at position `at` of a file: UNIT, END_OF_FILE or NOTHING (see `units.reading`)."""

    @abstractmethod
    def is_record(self, at: int) -> bool:
        """Whether a record or a filler begins at offset `at`, readable or not yet."""

    @abstractmethod
    def roll(self, at: int) -> int:
        """The first offset of the file after the one that holds `at`."""

    @abstractmethod
    def bases(self) -> list[int]:
        """The first offset of each file, oldest first."""

    # -- changing the ends ----------------------------------------------------------------------------------------

    @abstractmethod
    def truncate(self, end: int) -> int:
        """Truncate the log at `end` durably: the dropped bytes never reappear. Returns how many bytes were not zero.

        No sync job may be running. Uncommitted units are dropped too.
        """

    def recovered(self, end: int) -> int:
        """Recovery has found `end`: nothing after it is readable. Returns how many bytes were cut off."""
        dropped = self.truncate(end)
        self.flushed = end
        return dropped

    @abstractmethod
    def patch(self, at: int, data: bytes) -> None:
        """Overwrite a part of a unit durably; recovery corrects damaged fields."""

    @abstractmethod
    def expendable(self) -> LogFile | None:
        """The oldest file, unless it is the only one or the next one has nothing durable yet."""

    @abstractmethod
    def drop_first(self) -> LogFile:
        """Remove the oldest file from the log; the caller closes and deletes it."""

    @abstractmethod
    def sync_job(self, start: int, end: int, *, rewrite: bool) -> Callable[[], None]:
        """The job that makes [start, end) durable. It runs in a thread; the caller advances `flushed` when it is done.

        With `rewrite` the bytes are written again first: after a failed sync the kernel may have dropped their pages.
        """


LogFactory = Callable[[Path, int, Files, Allocator, bool], Log]
"""Makes the log of a store: folder, file size, files, allocator, transient."""
