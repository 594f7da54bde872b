"""What must hold: the properties of the paper's figure 3, what was acknowledged, and the lease."""

from collections.abc import Iterable
from typing import Protocol

from ariane.raft import AppendReply, Entry, Message, Node, Role, Vote
from tests.raft.simulator.disk import TORN, Disk


class Violation(AssertionError):
    """A property does not hold."""


class Observed(Protocol):
    """What the checker looks at."""

    name: str
    disk: Disk
    node: Node | None

    def now(self) -> int:
        """The member's clock."""
        ...


class Checker:
    """Sees everything that happens in one world."""

    def __init__(self, promises: bool = True) -> None:
        self.promises = promises  # check each answer against the disk, not only what comes of it
        self.leaders: dict[int, str] = {}
        self.committed: list[Entry] = []  # by index: what any member has reported as committed
        self.committed_in: list[int] = []  # by index: the term of the member that reported it first
        self.acknowledged: dict[int, int] = {}  # position of each acknowledged proposal by index

    def leads(self, member: Observed, term: int, members: Iterable[Observed]) -> None:
        """Election safety (5.2) and leader completeness (5.4): one leader a term, and it has all that is committed."""
        if self.leaders.setdefault(term, member.name) != member.name:
            raise Violation(f"election safety: {self.leaders[term]} and {member.name} lead term {term}")
        disk = member.disk
        for entry in self.committed[disk.start.index :]:
            if self.committed_in[entry.index] >= term:
                continue  # an election of an earlier term that ended late; such a leader commits nothing
            if entry.index > disk.last_index or disk.read(entry.index) != entry:
                raise Violation(f"leader completeness: {member.name} leads term {term} without committed {entry}")
        self.log_matching(members)
        self.lease(members)

    def commits(self, member: Observed, term: int, first: int, last: int) -> None:
        """State machine safety (5.4.3): all members commit the same entry at an index."""
        for index in range(first, last + 1):
            if index < member.disk.start.index:
                continue  # came with a reset: deleted by the leader, never seen here
            entry = member.disk.read(index)
            if entry.position == TORN:
                raise Violation(f"{member.name} commits entry {index}, which is torn")
            if index < len(self.committed):
                if self.committed[index] != entry:
                    raise Violation(f"state machine safety: {member.name} commits {entry}, not {self.committed[index]}")
            elif index == len(self.committed):
                self.committed.append(entry)
                self.committed_in.append(term)
            else:
                raise Violation(f"{member.name} commits {index} before anybody has committed {len(self.committed)}")

    def acknowledges(self, index: int, position: int) -> None:
        """A client was told that its proposal is stored."""
        self.acknowledged[index] = position

    def log_matching(self, members: Iterable[Observed]) -> None:
        """Log matching (5.3): logs with the same entry at an index are the same up to it."""
        disks = [member.disk for member in members]
        ends = [disk.whole_index for disk in disks]
        for number, a in enumerate(disks):
            for other, b in enumerate(disks[number + 1 :], number + 1):
                first, last = max(a.start.index, b.start.index), min(ends[number], ends[other])
                while last >= first and a.read(last).term != b.read(last).term:
                    last -= 1
                for index in range(first, last + 1):
                    if a.read(index) != b.read(index):
                        raise Violation(f"log matching: {a.read(index)} and {b.read(index)} before the same {last}")

    def sends(self, member: Observed, message: Message) -> None:
        """No answer before the disk has what it promises."""
        if not self.promises:
            return
        disk = member.disk
        if isinstance(message, AppendReply) and message.success and message.match_index > disk.synced:
            raise Violation(f"{member.name} acknowledges {message.match_index}, durable is {disk.synced}")
        if isinstance(message, Vote) and message.granted and not message.pre:
            stored = disk.hard_state
            if stored is None or (stored.term, stored.vote) != (message.term, message.target):
                raise Violation(f"{member.name} votes for {message.target} in {message.term}, stored is {stored}")

    def lease(self, members: Iterable[Observed]) -> None:
        """While a leader holds a lease, nobody leads a later term (dissertation, 6.4.1)."""
        leaders = [(m, m.node) for m in members if m.node and m.node.role is Role.LEADER]
        newest = max((node.hard_state.term for _, node in leaders), default=0)
        for member, node in leaders:
            lease_end = node.lease_end
            if lease_end is not None and member.now() < lease_end and node.hard_state.term < newest:
                raise Violation(f"lease: {member.name} holds one of term {node.hard_state.term}; {newest} has a leader")

    def end(self, members: Iterable[Observed]) -> None:
        """Every acknowledged proposal is where it was acknowledged, on every member's disk unless deleted by age."""
        for member in members:
            disk = member.disk
            for index, position in self.acknowledged.items():
                if index >= disk.start.index and (index > disk.last_index or disk.read(index).position != position):
                    raise Violation(f"acknowledged entry {index} is lost on {member.name}")
        self.log_matching(members)
