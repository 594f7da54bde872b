"""The ledger as the log of a store: entries with headers, readable up to the last committed entry.

A leader appends own entries by `reserve` and `commit`, as in every log; `commit` completes their checksums and passes
them to `appended`, which proposes them. A follower appends its leader's entries by `append_entry`. `visible` is the
end of the committed entries, where reading stops.

A broker that ran without DLedger before has plain files below the ledger (`plain_part`): the oldest of `files`, up to
`divide`. The first `load` of such a folder finds no ledger; recovery then finds the end of the plain log as that of
every commitlog, and `recovered` starts the ledger.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ariane.dledger.storage.entry import (
    BODY_CRC,
    BODY_CRC_AT,
    ENTRY_HEADER,
    LedgerFraming,
    body_is_whole,
    header_at,
    unit_is_whole,
)
from ariane.dledger.storage.index import LedgerIndex
from ariane.dledger.storage.plain_part import PlainPart
from ariane.env import Files
from ariane.protocol.checksum import crc32
from ariane.store.layout import file_name
from ariane.store.log.allocate import Allocator
from ariane.store.log.commitlog import CommitLog
from ariane.store.log.framing import BLANK_LENGTH
from ariane.store.log.log_file import LogFile, LogSegment
from ariane.store.units.reading import END_OF_FILE, UNIT

NO_LIMIT: Final = 1 << 62
_NEW_FILES: Final = 3  # files checked at a start without a checkpoint, as in Apache's


class LedgerLog(CommitLog):
    """A log of entries. After `load`, `first_index`, `last_index` and `committed_index` describe the entries found."""

    def __init__(
        self,
        folder: Path,
        file_size: int,
        files: Files,
        allocator: Allocator,
        framing: LedgerFraming,
        index: LedgerIndex,
        end_index: int,
        committed_index: int,
        plain: PlainPart | None = None,
    ) -> None:
        super().__init__(folder, file_size, files, allocator, False, framing)
        self.entries = framing
        self.index = index
        self.visible = NO_LIMIT
        self.plain = plain
        """The plain files below the ledger, if this member can have some."""
        self.divide = 0
        """Where the plain files end and the ledger begins; 0 when there are no plain files."""
        self._converting = False  # there are plain files and no ledger yet
        self.first_index = -1
        self.end_index = end_index
        """The last entry known to be durable at the last checkpoint; -1 when there is none."""
        self.committed_index = committed_index
        """The last entry known to be committed at the last checkpoint; -1 when there is none."""
        self.lost_committed = False
        """Whether recovery has truncated committed entries."""
        self.appended: Callable[[list[tuple[int, int]]], None] | None = None
        self.dropped: Callable[[int], None] | None = None
        self._own: list[tuple[int, int]] = []  # position and size of the entries in the tail
        self._spare: LogFile | None = None

    @property
    def last_index(self) -> int:
        """The index of the last entry; one less than the first when there is none."""
        return self.entries.next_index - 1

    @property
    def start(self) -> int:
        """The first offset of the ledger's oldest file; 0 when there is none."""
        return max(self.divide, self.min_offset, 0)

    # -- opening --------------------------------------------------------------------------------------------------

    def load(self) -> None:
        super().load()
        plain = self.plain if self.plain is not None and self.plain.exists else None
        if not self.files:
            self.lost_committed = 0 <= self.committed_index < NO_LIMIT
            self.committed_index = -1
            if plain is None:
                self.checked_end = 0
                return
            self.files = plain.open(self.file_size)
            self._converting = True
            self.divide = self.files[-1].base + self.file_size
            self._place(self.divide)  # recovery finds the end of the messages, and calls `recovered`
            return
        below: list[LogFile] = []
        if plain is not None:
            below = plain.open(self.file_size)
            plain.check(below, self.file_size, self.files[0].base)
        head = header_at(self.files[0].memory, 0)
        if head is not None and head.position == self.files[0].base:
            self.first_index = head.index
        self._check()
        self.lost_committed = self.last_index < self.committed_index < NO_LIMIT
        self.committed_index = min(self.committed_index, self.last_index)
        if below:
            self.divide, self.min_offset = self.files[0].base, below[0].base
            self.files = below + self.files
        self.checked_end = self._readable(self.end_of(self.committed_index))
        self.end = self.files[-1].base + self.file_size  # recovery reads whole files and stops at `checked_end`

    def _check(self) -> None:
        """Find the end of the ledger: check every entry since the last checkpoint, and complete the index."""
        number = self._first_to_check()
        at, last, last_term = self.files[number].base, -1, -1
        if number == 0:
            last = self.first_index - 1
        while number < len(self.files):
            file = self.files[number]
            entry = header_at(file.memory, at - file.base)
            if entry is None:
                if self._framing.kind_at(file.memory, at - file.base) != END_OF_FILE or number + 1 == len(self.files):
                    break
                number += 1
                at = self.files[number].base
                continue
            follows = entry.position == at and entry.term >= last_term and (last < 0 or entry.index == last + 1)
            if not follows or not self._is_whole(file, at - file.base, entry.size):
                break
            self.index.put(entry.index, at, entry.size, entry.term)
            last, last_term = entry.index, entry.term
            at += entry.size
        self.entries.next_index = max(last, -1) + 1
        if last < 0:
            self.first_index = -1
        self.index.flush()
        super().truncate(at)

    def _first_to_check(self) -> int:
        """The number of the file to begin with: that of the last checkpoint, or an older one if the index lacks it."""
        number = max(len(self.files) - _NEW_FILES, 0)
        known = self.index.get(self.end_index)
        if known is not None and self.files[0].base <= known[0] < self.files[-1].base + self.file_size:
            number = (known[0] - self.files[0].base) // self.file_size
        while number > 0:
            file = self.files[number]
            entry = header_at(file.memory, 0)
            if entry is not None and self.index.get(entry.index) == (file.base, entry.size, entry.term):
                break
            number -= 1
        return number

    def _is_whole(self, file: LogFile, at: int, size: int) -> bool:
        """Whether the body of an entry survived a power cut. A body that is no message is kept if an entry follows."""
        entry = header_at(file.memory, at)
        assert entry is not None
        body = file.memory[at + ENTRY_HEADER.size : at + size]
        if entry.body_crc:
            return body_is_whole(entry, body)
        whole = unit_is_whole(body, file.base + at + ENTRY_HEADER.size)
        if whole is None:
            return self._framing.kind_at(file.memory, at + size) == UNIT
        return whole

    def recovered(self, end: int) -> int:
        if self._converting:
            self._converting = False
            return self._start_ledger(end)
        self.visible = end
        self.end = min(self.stored, end)
        self.flushed = self.stored
        return 0

    def _start_ledger(self, end: int) -> int:
        """Close the plain log at `end` and create the first file of the ledger: from then on, the store is converted.

        Every step can be repeated, because a crash before the last one leaves a plain log.
        """
        plain = self.plain
        assert plain is not None
        while len(self.files) > 1 and self.files[-1].base > end:  # made ahead, and never used
            unused = self.files.pop()
            unused.close()
            self._files.remove(unused.path)
        self._files.sync_folder(plain.folder)
        dropped = plain.close_last(self.files[-1], end)
        self.divide = self.files[-1].base + self.file_size
        self._place(self.divide)
        self._start_file(self.divide)
        self.flushed = self.divide
        self.show(self.divide)
        return dropped

    # -- appending own entries ------------------------------------------------------------------------------------

    def reserve(self, size: int) -> int:
        at = super().reserve(size)
        self._own.append((at - self.header, size + self.header))
        return at

    def cancel(self, at: int) -> None:
        super().cancel(at)
        while self._own and self._own[-1][0] >= at - self.header:
            self._own.pop()
            self.entries.next_index -= 1

    def make_room(self, size: int, count: int) -> None:
        """Prepare the next file. The position of an entry depends on its size alone, so that all members agree."""
        size += self.header * count
        limit = self.files[-1].base + self.file_size if self.files else 0
        if self._spare is None and self.written + size + BLANK_LENGTH * 2 > limit:
            self._take_spare(limit)

    def start_next(self) -> None:
        """Prepare the next file; a new file is started only when the last one is full."""
        if self._spare is None:
            self._take_spare(self.files[-1].base + self.file_size if self.files else 0)

    def _take_spare(self, base: int) -> None:
        self._spare = LogFile(base, self._allocator.take(self.folder / file_name(base), self.file_size))

    def _start_file(self, base: int) -> None:
        if self._spare is None or self._spare.base != base:
            self._drop_spare()
            self._take_spare(base)
        new, self._spare = self._spare, None
        assert new is not None
        room = base - self.written
        if self.files and room:
            self.tail.write(self._framing.filler(room))
            self.commit()
        self.files.append(new)
        self._place(base)

    def commit(self) -> bool:
        if not len(self.tail):
            return False
        own = self._own
        if own:
            self._own = []
            self._seal(own)
        super().commit()
        self.end = min(self.stored, self.visible)
        if own:
            first = self.entries.next_index - len(own)
            if self.first_index < 0:
                self.first_index = first
            for number, (position, size) in enumerate(own):
                self.index.put(first + number, position, size, self.entries.term)
            if self.appended is not None:
                self.appended(own)
        return True

    def _seal(self, own: list[tuple[int, int]]) -> None:
        """Write the checksums of the bodies into the headers."""
        data = bytearray(self.tail.getvalue())
        view = memoryview(data)
        for position, size in own:
            at = position - self.stored
            BODY_CRC.pack_into(data, at + BODY_CRC_AT, crc32(view[at + ENTRY_HEADER.size : at + size]))
        self.tail.truncate(0)
        self.tail.write(bytes(data))

    # -- appending a leader's entries -----------------------------------------------------------------------------

    def place_after(self, end: int, size: int) -> int:
        """The position of an entry of `size` bytes that follows one that ends at `end`, the same on all members."""
        limit = end - end % self.file_size + self.file_size
        return end if end + size + BLANK_LENGTH <= limit else limit

    def append_entry(self, record: bytes) -> None:
        """Append an entry with its header at the leader's position; `commit` writes it."""
        size = len(record)
        header = header_at(memoryview(record), 0)
        if header is None or header.size != size:
            raise ValueError("no whole entry")
        position = header.position
        if not self.files:
            self._start_file(position - position % self.file_size)
            self._place(position)
            self.entries.next_index = header.index
        if header.index != self.entries.next_index:
            raise ValueError(f"entry {header.index} does not follow entry {self.last_index}")
        limit = self.files[-1].base + self.file_size
        if position != self.written or position == limit:
            if position != limit or self.written < limit - self.file_size:
                raise ValueError(f"an entry at {position} does not follow the end of the log, {self.written}")
            self._start_file(position)
            limit += self.file_size
        if position + size + BLANK_LENGTH > limit:
            raise ValueError(f"an entry of {size} bytes at {position} crosses the end of its file")
        if not header.body_crc:  # Apache's nodes compute none
            checked = bytearray(record)
            BODY_CRC.pack_into(checked, BODY_CRC_AT, crc32(memoryview(record)[ENTRY_HEADER.size :]))
            record = bytes(checked)
        self.tail.write(record)
        self.written = position + size
        self.index.put(header.index, position, size, header.term)
        self.entries.next_index = header.index + 1
        if self.first_index < 0:
            self.first_index = header.index

    def append_raw(self, at: int, data: bytes | memoryview) -> bool:
        done = super().append_raw(at, data)
        self.end = min(self.stored, self.visible)
        return done

    # -- reading --------------------------------------------------------------------------------------------------

    def record(self, position: int, size: int) -> bytes | None:
        """The bytes of an entry with its header, committed or not; None when its file was deleted."""
        low = self.min_offset
        if low < 0 or position < low or position + size > self.stored:
            return None
        file = self.files[(position - low) // self.file_size]
        at = position - file.base
        return bytes(file.memory[at : at + size])

    def header_of(self, at: int) -> int:
        return 0 if at < self.divide else self.header

    def kind_at(self, file: LogSegment, at: int) -> int:
        if file.base < self.divide and self.plain is not None:
            return self.plain.kind_at(file.memory, at)
        return self.entries.kind_at(file.memory, at)

    def end_of(self, index: int) -> int:
        """The end position of the entry `index`; the start of the ledger when there is no such entry."""
        found = self.index.get(index) if self.first_index <= index <= self.last_index else None
        return self.start if found is None else found[0] + found[1]

    def first_from(self, position: int) -> int:
        """The index of the first entry at or after `position`, or the next one when there is none."""
        low, high = max(self.first_index, 0), self.entries.next_index
        while low < high:
            middle = (low + high) // 2
            found = self.index.get(middle)
            if found is None or found[0] >= position:
                high = middle
            else:
                low = middle + 1
        return low

    def show(self, end: int) -> None:
        """Let readers see the log up to `end`, the end of a committed entry."""
        self.visible = self._readable(end)
        self.end = min(self.stored, self.visible)

    def _readable(self, end: int) -> int:
        """Where reading ends if the committed entries end at `end`: without any, at the last message before them."""
        return self.plain.end if self.plain is not None and self.divide > 0 and end <= self.divide else end

    # -- changing the ends ----------------------------------------------------------------------------------------

    def _place(self, end: int) -> None:
        super()._place(end)
        self.end = min(end, self.visible)

    def truncate(self, end: int) -> int:
        while self._own:
            self._own.pop()
            self.entries.next_index -= 1
        self._drop_spare()
        self.entries.next_index = self.first_from(end)
        return super().truncate(end)

    def clear(self, position: int) -> None:
        """Drop all entries and plain files; the next entry is at `position`, or in the file that holds it."""
        while self.files and self.files[0].base < self.divide:  # oldest first: what remains is a log at any time
            file = self.drop_first()
            file.close()
            self._files.remove(file.path)
            self._files.sync_folder(file.path.parent)
        self.truncate(self.start)
        while self.files:
            file = self.files.pop()
            file.close()
            self._files.remove(file.path)
        self._files.sync_folder(self.folder)
        self.first_index = -1
        self.visible = position
        self._place(position)
        self.flushed = position

    def expendable(self) -> LogFile | None:
        """As in every log; but two committed entries must follow, because the core's log begins with the second.

        A plain file needs none; the last one is deleted like the others.
        """
        if len(self.files) < 2:
            return None
        if self.files[0].base < self.divide:
            return self.files[0]
        following = self.files[1]
        first = header_at(following.memory, 0)
        second = None if first is None else header_at(following.memory, first.size)
        if first is None or second is None or following.base + first.size + second.size > min(self.end, self.flushed):
            return None
        return super().expendable()

    def drop_first(self) -> LogFile:
        first = super().drop_first()
        if first.base < self.divide:
            if self.min_offset >= self.divide and self.plain is not None:
                self.divide = 0
                self.plain.forget()
            return first
        entry = header_at(self.files[0].memory, 0)
        if entry is not None:
            self.first_index = entry.index
            self.index.drop_before(entry.index)
            if self.dropped is not None:
                self.dropped(entry.index)
        return first

    def close(self) -> None:
        self._drop_spare()
        super().close()

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._files.remove(self._spare.path)
            self._spare = None
