"""The file `members`: the configurations in a member's log, so that a start finds them without reading the log.

It is written and synced before the entry that it names, so it may name entries that are not in the log: those are
dropped when it is read. Index and term identify an entry (log matching), so nothing else is compared. Configurations
whose entries retention has deleted stay: the newest one before the log's start is in force there. Without the file
`dLegerPeers` is; with it, `dLegerPeers` only says where this member listens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from ariane.dledger.storage.configuration import Members
from ariane.env import Files
from ariane.errors import ProtocolError
from ariane.raft import NO_INDEX, NO_TERM, Membership
from ariane.store.results import StoreDamaged

_KEPT: Final = 64  # configurations; older ones are of no use


@dataclass(frozen=True, slots=True)
class Stored:
    """A configuration and its entry; index -1 for one that this member has begun with."""

    index: int
    term: int
    membership: Membership


class _Row(Members):
    index: int
    term: int


_decoder: Final = msgspec.json.Decoder(list[_Row])


class MembersFile:
    """The configurations of one member, oldest first; the file and `stored` are always the same."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self.stored: list[Stored] = []
        if files.exists(path):
            try:
                rows = _decoder.decode(files.read(path))
                self.stored = [Stored(row.index, row.term, row.membership) for row in rows]
            except (msgspec.MsgspecError, UnicodeDecodeError, ProtocolError) as error:
                raise StoreDamaged(
                    f"{path} names the members of the group and cannot be read ({error}): copy it from another member "
                    "of the group, or remove it on all members to begin with dLegerPeers; nothing was changed"
                ) from None

    def begin(self, membership: Membership) -> None:
        """Begin with the configuration of a group that runs already; its entries follow."""
        self._save([Stored(NO_INDEX, NO_TERM, membership)])

    def put(self, stored: Stored) -> None:
        """Add a configuration durably. Call it before its entry is written."""
        self._save([*self.stored, stored][-_KEPT:])

    def keep(self, valid: Callable[[Stored], bool]) -> None:
        """Drop the others."""
        left = [stored for stored in self.stored if valid(stored)]
        if len(left) < len(self.stored):
            self._save(left)

    def _save(self, stored: list[Stored]) -> None:
        """Blocks for a sync: a configuration changes seldom, and no entry may overtake it."""
        rows = []
        for one in stored:
            members = Members.of(one.membership)
            rows.append(_Row(voters=members.voters, learners=members.learners, index=one.index, term=one.term))
        self._files.make_folder(self._path.parent)
        self._files.replace(self._path, msgspec.json.encode(rows))
        self.stored = stored
