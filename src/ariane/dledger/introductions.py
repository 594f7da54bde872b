"""What the other members say of themselves, and what a member concludes from it before it takes part."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ariane.dledger.peers.wire import Metadata
from ariane.dledger.storage.configuration import Members
from ariane.raft import HardState, Membership

log = logging.getLogger("ariane.dledger")

COPY: Final = (
    "stop the members, copy commitlog, consumequeue, index and config of one of them to the others, and start again; "
    "or start a group of one and add empty members"
)


BEGUN_AGAIN: Final = (
    "the first entries differ: this group was begun again on empty disks. Keep this member's folder if messages of it "
    "are missing in the group; to join, start it with an empty one"
)


@dataclass(frozen=True)
class Beginning:
    """How a member without files of its own begins."""

    hard_state: HardState
    membership: Membership | None = None
    """The configuration of a group that runs; None: the one of `dLegerPeers`."""


class Introductions:
    """The answers of the other members, by id."""

    def __init__(self, id: str, first: Membership, plain: Callable[[], str], beginning: Callable[[], str]) -> None:
        """`first` is the configuration of `dLegerPeers`.

        `plain` is the fingerprint of this member's plain commitlog, `beginning` that of its first entry.
        """
        self.waiting = ""
        """Why this member must not begin yet; empty when it only waits for answers."""
        self._id = id
        self._first = first
        self._plain = plain
        self._beginning = beginning
        self._answers: dict[str, Metadata] = {}
        self._strangers: set[str] = set()  # members whose first entry is another one

    def add(self, id: str, answer: Metadata) -> None:
        """A member has introduced itself."""
        self._answers[id] = answer
        if answer.ariane is not None and "" != self._beginning() != answer.ariane.beginning != "":
            self._strangers.add(id)
        else:
            self._strangers.discard(id)

    def add_apache(self, id: str) -> None:
        """A member of Apache's has sent a request; it says nothing of itself."""
        self._answers.setdefault(id, Metadata())

    def knows(self, id: str) -> bool:
        """Whether a member has introduced itself, so that it is known whether it `differs`."""
        return id in self._answers

    def is_writable(self, id: str) -> bool:
        """Whether the store of an Ariane member took messages when that introduced itself last."""
        told = self._answers.get(id)
        return told is not None and told.ariane is not None and told.ariane.writable

    def broker_of(self, id: str) -> str:
        """The address of a member's broker; empty while it is not known."""
        answer = self._answers.get(id)
        return answer.ariane.broker if answer is not None and answer.ariane is not None else ""

    def differs(self, id: str) -> bool:
        """Whether another member has another log: not the same plain commitlog below it, or another first entry."""
        if id in self._strangers:
            return True
        told = self._answers.get(id)
        return told is not None and told.ariane is not None and "" != self._plain() != told.ariane.plain != ""

    def difference(self, *ids: str) -> str:
        """Describe how this and other members differ, and what to do."""
        if strangers := [id for id in ids if id in self._strangers]:
            return f"{', '.join(strangers)} has another log than this member: {BEGUN_AGAIN}"
        plains = {id: told.ariane.plain for id in ids if (told := self._answers.get(id)) and told.ariane is not None}
        shown = ", ".join(f"{id} has {plain or 'none'}" for id, plain in ({self._id: self._plain()} | plains).items())
        return f"the plain commitlogs differ (end and checksum): {shown}: {COPY}"

    def decide(self, *, patient: bool) -> Beginning | None:
        """How to begin without files, or None to wait.

        A member without files is new if its group is new; else its disk was lost, and it must not vote yet. It begins
        with the configuration of the group: if that does not have it, it waits until it is added. While it is
        `patient`, it does not take a group for new whose other members have not all answered: one may have its log.
        """
        plain = self._plain()
        ours = {id: told.ariane for id, told in self._answers.items() if told.ariane is not None}
        differing = [id for id, told in ours.items() if self.differs(id) or (told.new and told.plain != plain)]
        waiting = self.difference(*sorted(differing)) if differing else ""
        if waiting and waiting != self.waiting:
            log.error("this member waits: %s", waiting)
        self.waiting = waiting
        running = [id for id, told in ours.items() if not told.new and not told.outside]
        if running and not any(map(self.differs, self._answers)):
            newest = max(running, key=lambda id: ours[id].membersIndex)
            return Beginning(HardState(abstaining=True), _membership(self._answers[newest], ours[newest].learners))
        # Apache's members do not handle lost disks; in a mixed group a member starts as they do.
        agreeing = {*self._answers, self._id} - set(differing)
        if not self._first.has_quorum(agreeing) or (differing and not plain):
            return None
        silent = sorted(self._first.voters - agreeing - set(differing))
        if silent and not plain and len(ours) == len(self._answers):
            if patient:
                return None
            log.warning("a new group begins without %s: if that has a log, it will not join", ", ".join(silent))
        return Beginning(HardState())


def _membership(told: Metadata, learners: list[str]) -> Membership:
    peers = told.peers or {}
    voters = {id: address for id, address in peers.items() if id not in learners}
    return Members(voters=voters, learners={id: peers[id] for id in learners if id in peers}).membership
