"""Epochs: which master wrote which part of the log."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from ariane.env import Files
from ariane.errors import StoreError
from ariane.protocol.ha import EpochEntry

FILE_NAME: Final = "epochs.json"
_MOST: Final = 1000  # entries; older ones are dropped


class _Content(msgspec.Struct):
    node: str
    entries: list[EpochEntry]
    promised: bool = False
    floor: int = 0


class Epochs:
    """The epochs of a store's log, in a small file that is replaced atomically.

    A master calls `begin` when it starts or is promoted, before it takes messages. A slave calls `adopt` before it
    appends the bytes of a master. The origin of bytes before the first entry is unknown.
    """

    def __init__(self, files: Files, folder: Path, random: Random | None = None) -> None:
        self._files = files
        self._path = folder / FILE_NAME
        self._random = random or Random()
        self._content = self._load()

    def _load(self) -> _Content:
        if not self._files.exists(self._path):
            return _Content(self._name(), [])
        try:
            return msgspec.json.decode(self._files.read(self._path), type=_Content)
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{self._path} is damaged ({error}): delete it to go on without the history of this log; a slave may "
                "then be unable to tell where its log and its master's part"
            ) from None

    def _name(self) -> str:
        return f"{self._random.getrandbits(64):016x}"

    @property
    def node(self) -> str:
        """Names this store among all copies of the log."""
        return self._content.node

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._content.entries)

    @property
    def current(self) -> int:
        """The newest epoch; 0 when there is none."""
        return self._content.entries[-1].epoch if self._content.entries else 0

    def protected(self, end: int) -> int:
        """Of a log that ends at `end`, the part that must not be truncated: it may hold acknowledged messages.

        That is everything this node received as a slave while its master's sends waited for it.
        """
        return end if self._content.promised else min(self._content.floor, end)

    def begin(self, end: int, *, promote: bool = False) -> EpochEntry:
        """Begin a run as master with a log that ends at `end`; `promote` begins a new epoch."""
        entries = [entry for entry in self._content.entries if entry.start < end]
        entry = EpochEntry(max(self.current, 1) + promote, end, self._name())
        self._save(_Content(self.node, [*entries, entry], promised=False, floor=self.protected(end)))
        return entry

    def adopt(self, entries: Sequence[EpochEntry], end: int, *, promised: bool) -> None:
        """Take over the epochs of a master whose log this one, which ends at `end`, continues."""
        content = _Content(self.node, list(entries), promised, self.protected(end))
        if content != self._content:
            self._save(content)

    def _save(self, content: _Content) -> None:
        content.entries = content.entries[-_MOST:]
        self._files.make_folder(self._path.parent)
        self._files.replace(self._path, msgspec.json.encode(content))
        self._content = content


def common_end(ours: Sequence[EpochEntry], our_end: int, theirs: Sequence[EpochEntry], their_end: int) -> int:
    """The offset where two logs diverge: according to their epochs they have the same bytes before it.

    >>> a, b, c = EpochEntry(1, 0, "a"), EpochEntry(1, 50, "b"), EpochEntry(2, 40, "c")
    >>> common_end([a, b], 90, [a, c], 70), common_end([a], 30, [a, c], 70)
    (40, 30)
    """
    ours = [entry for entry in ours if entry.start < our_end]
    theirs = [entry for entry in theirs if entry.start < their_end]
    shared = {(entry.epoch, entry.run) for entry in theirs}
    for index in range(len(ours) - 1, -1, -1):
        if (ours[index].epoch, ours[index].run) in shared:
            other = next(i for i, e in enumerate(theirs) if (e.epoch, e.run) == (ours[index].epoch, ours[index].run))
            return min(_end_of(ours, index, our_end), _end_of(theirs, other, their_end))
    # No common entry: the origin of bytes before the first entry of either is unknown.
    return min(_end_of(ours, -1, our_end), _end_of(theirs, -1, their_end))


def _end_of(entries: Sequence[EpochEntry], index: int, end: int) -> int:
    return entries[index + 1].start if index + 1 < len(entries) else end
