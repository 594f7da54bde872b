"""Allocation strategies: which member of a group reads which queue.

Every member computes the allocation by itself, so all must get the same result: for equal input these strategies return
what Apache's classes of the same name return.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ariane.message import MessageQueue

T = TypeVar("T")


class Allocate(Protocol):
    """A strategy: returns the queues of one member. Queues and members are sorted."""

    def __call__(
        self, group: str, me: str, queues: Sequence[MessageQueue], members: Sequence[str], /
    ) -> list[MessageQueue]: ...


def averagely(group: str, me: str, queues: Sequence[MessageQueue], members: Sequence[str], /) -> list[MessageQueue]:
    """Allocate consecutive queues to each member; the first members get one more when the division has a remainder.

    >>> queues = [MessageQueue("T", "a", i) for i in range(3)]
    >>> [queue.queue_id for queue in averagely("G", "c1", queues, ["c1", "c2"])]
    [0, 1]
    """
    if me not in members:
        return []
    index = members.index(me)
    share, rest = divmod(len(queues), len(members))
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def by_circle(group: str, me: str, queues: Sequence[MessageQueue], members: Sequence[str], /) -> list[MessageQueue]:
    """Allocate queues in turn."""
    return list(queues[members.index(me) :: len(members)]) if me in members else []


def _md5(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


def _queue_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


@dataclass(frozen=True)
class ConsistentHash:
    """Place queues and members on a hash ring: a member that joins or leaves moves few queues."""

    virtual_nodes: int = 10
    hash_of: Callable[[str], int] = _md5

    def __call__(
        self, group: str, me: str, queues: Sequence[MessageQueue], members: Sequence[str], /
    ) -> list[MessageQueue]:
        if me not in members:
            return []
        ring = {self.hash_of(f"{member}-{node}"): member for member in members for node in range(self.virtual_nodes)}
        places = sorted(ring)
        if not places:
            return []

        def owner(queue: MessageQueue) -> str:
            at = bisect_left(places, self.hash_of(_queue_text(queue)))
            return ring[places[at % len(places)]]

        return [queue for queue in queues if owner(queue) == me]


@dataclass(frozen=True)
class ByConfig:
    """Allocate a fixed list of queues."""

    queues: tuple[MessageQueue, ...]

    def __call__(
        self, group: str, me: str, queues: Sequence[MessageQueue], members: Sequence[str], /
    ) -> list[MessageQueue]:
        return list(self.queues)


@dataclass(frozen=True)
class ByMachineRoom:
    """Allocate evenly, and only queues of brokers named `room@name` in one of these rooms."""

    rooms: frozenset[str]

    def __call__(
        self, group: str, me: str, queues: Sequence[MessageQueue], members: Sequence[str], /
    ) -> list[MessageQueue]:
        if me not in members:
            return []
        mine = [queue for queue in queues if self._is_here(queue.broker_name)]
        index = members.index(me)
        share, rest = divmod(len(mine), len(members))
        found = mine[share * index : share * (index + 1)]
        if rest > index:
            found.append(mine[index + share * len(members)])
        return found

    def _is_here(self, broker_name: str) -> bool:
        room, _, name = broker_name.partition("@")
        return room in self.rooms and bool(name) and "@" not in name


@dataclass(frozen=True)
class MachineRoomNearby:
    """Allocate queues to members in the broker's room; all members share those of a room without members."""

    inner: Allocate
    room_of_broker: Callable[[MessageQueue], str]
    room_of_member: Callable[[str], str]

    def __call__(
        self, group: str, me: str, queues: Sequence[MessageQueue], members: Sequence[str], /
    ) -> list[MessageQueue]:
        if me not in members:
            return []
        queues_in = _grouped(queues, self.room_of_broker)
        members_in = _grouped(members, self.room_of_member)
        here = self.room_of_member(me)
        found = self.inner(group, me, queues_in[here], members_in[here]) if here in queues_in else []
        for room in sorted(queues_in.keys() - members_in.keys()):
            found += self.inner(group, me, queues_in[room], members)
        return found


def _grouped(items: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    rooms: dict[str, list[T]] = {}
    for item in items:
        room = room_of(item)
        if not room:
            raise ValueError(f"machine room nearby: room_of_broker or room_of_member returned no room for {item}")
        rooms.setdefault(room, []).append(item)
    return rooms
