"""Locks on queues for ordered consuming: one owner per group and queue, kept alive by asking again."""

from collections.abc import Iterable

from ariane.env import Clock
from ariane.message import MessageQueue


class QueueLocks:
    """Who may consume a queue in order; a lock not renewed within `lifetime_ms` is anybody's."""

    def __init__(self, clock: Clock, lifetime_ms: int) -> None:
        self._clock = clock
        self._lifetime_ms = lifetime_ms
        self._locks: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock what is free or already the client's; which queues it holds now."""
        now = self._clock.now_ms()
        owners = self._locks.setdefault(group, {})
        locked: list[MessageQueue] = []
        for queue in queues:
            owner, since = owners.get(queue, (client_id, now))
            if owner == client_id or now - since > self._lifetime_ms:
                owners[queue] = (client_id, now)
                locked.append(queue)
        return locked

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Release what the client holds; the locks of others stay."""
        owners = self._locks.get(group, {})
        for queue in queues:
            if owners.get(queue, ("", 0))[0] == client_id:
                del owners[queue]

    def owner(self, group: str, queue: MessageQueue) -> str | None:
        """Who holds a queue now."""
        owner, since = self._locks.get(group, {}).get(queue, (None, 0))
        return owner if owner is not None and self._clock.now_ms() - since <= self._lifetime_ms else None
