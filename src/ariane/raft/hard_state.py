"""The state that must be durable before a message is sent: `currentTerm` and `votedFor` of the paper's figure 2."""

from typing import NamedTuple


class HardState(NamedTuple):
    """The term and the vote of a member, stored in one durable write.

    `abstaining` is set when a member has lost this record or acknowledged entries (a deleted term file, a wiped
    disk). Such a member may have voted in terms it no longer knows, so it neither votes nor campaigns until
    `Recovery` has shown that this is safe. A member of a new group starts with `HardState()`.
    """

    term: int = 0
    vote: str | None = None
    abstaining: bool = False

    def __str__(self) -> str:
        return f"term {self.term} vote {self.vote or '-'}{' abstaining' if self.abstaining else ''}"
