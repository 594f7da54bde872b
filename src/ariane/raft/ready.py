"""The work of the core. `Node.ready` returns it; the driver does it."""

from typing import NamedTuple

from ariane.raft.hard_state import HardState
from ariane.raft.log import Write
from ariane.raft.messages import Message
from ariane.raft.state import Role


class RoleChange(NamedTuple):
    """A new role, term or leader."""

    role: Role
    term: int
    leader: str | None  # None while none is known


class Ready:
    """Work for the driver; false when there is none. The parts are independent: messages never wait for the writes.

    `hard_state`: store it durably, then call `Node.vote_stored` with it.
    `write`: change the log files, make that durable, then call `Node.persisted` with its number. A truncation must be
    durable before entries are written in its place.
    `sync`: whether to sync what was written; otherwise a later `Ready` says so, and one sync stores more entries.
    `messages`: send them; they may be lost.
    `commit_index`: entries up to here are committed: acknowledge and dispatch them.
    `role`: the member's new role. A leader proposes an entry of its own at once, or nothing of earlier terms commits.
    """

    __slots__ = ("commit_index", "hard_state", "messages", "role", "sync", "write")

    def __init__(
        self,
        hard_state: HardState | None,
        write: Write | None,
        sync: bool,
        messages: tuple[Message, ...],
        commit_index: int | None,
        role: RoleChange | None,
    ) -> None:
        self.hard_state = hard_state
        self.write = write
        self.sync = sync
        self.messages = messages
        self.commit_index = commit_index
        self.role = role

    def __bool__(self) -> bool:
        return bool(self.hard_state or self.write or self.messages or self.role) or self.commit_index is not None
