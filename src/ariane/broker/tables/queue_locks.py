"""Locks on queues for ordered consuming: one owner per group and queue, kept by renewing it."""

import logging
from collections.abc import Iterable

from ariane.broker.config.live import LiveOptions
from ariane.broker.names import check_group
from ariane.broker.request_bodies import body_of
from ariane.broker.seldom_log import SeldomLog
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.queues import Queues
from ariane.env import Clock
from ariane.message import MessageQueue
from ariane.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody, QueueKey
from ariane.protocol.command import Command
from ariane.remoting import Connection, Reason, Refusals

log = logging.getLogger("ariane.broker")


class QueueLocks:
    """Which client may consume a queue in order. A lock that is not renewed within `lifetime_ms` is free again.

    A lock outlives the connection of its owner: the client may process what it has pulled until its own copy of the
    lock expires, and no other client may consume the queue meanwhile.
    """

    def __init__(self, clock: Clock, lifetime_ms: int, most: int, refusals: Refusals) -> None:
        self._clock = clock
        self._refusals = refusals
        self._lifetime = lifetime_ms / 1000
        self._most = most
        self._locks: dict[str, dict[MessageQueue, tuple[str, float]]] = {}  # group, queue: owner, time of its renewal
        self._count = 0
        self._full = SeldomLog(log, clock)

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock the queues that are free or already the client's, and return them."""
        now = self._clock.monotonic()
        owners = self._locks.get(group, {})
        locked: list[MessageQueue] = []
        for queue in queues:
            held = owners.get(queue)
            if held is not None and held[0] != client_id and now - held[1] <= self._lifetime:
                continue
            if held is None:
                if self._count >= self._most:
                    self._refusals.count(Reason.LOCKS)
                    self._full.warning("group %s gets no lock: all %d locks (queueLockMax) are held", group, self._most)
                    continue
                self._count += 1
                self._locks[group] = owners
            owners[queue] = (client_id, now)
            locked.append(queue)
        return locked

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Release the queues that the client holds; the locks of others stay."""
        owners = self._locks.get(group, {})
        for queue in queues:
            if queue in owners and owners[queue][0] == client_id:
                self._release(group, owners, queue)

    def owner(self, group: str, queue: MessageQueue) -> str | None:
        """The client that holds a queue now."""
        held = self._locks.get(group, {}).get(queue)
        return held[0] if held is not None and self._clock.monotonic() - held[1] <= self._lifetime else None

    def expire(self) -> None:
        """Drop the locks that were not renewed in time."""
        oldest = self._clock.monotonic() - self._lifetime
        for group, owners in list(self._locks.items()):
            for queue in [queue for queue, (_, renewed) in owners.items() if renewed < oldest]:
                self._release(group, owners, queue)

    def _release(self, group: str, owners: dict[MessageQueue, tuple[str, float]], queue: MessageQueue) -> None:
        del owners[queue]
        self._count -= 1
        if not owners:
            del self._locks[group]


class QueueLocksHandler:
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ. Only queues and groups that exist, or may be created, are locked."""

    def __init__(self, locks: QueueLocks, queues: Queues, groups: GroupTable, options: LiveOptions) -> None:
        self._locks = locks
        self._queues = queues
        self._groups = groups
        self._options = options

    def lock(self, connection: Connection, request: Command) -> Command:
        """Lock queues for a client; the answer lists those that it holds now."""
        body = body_of(LockBatchRequestBody, request)
        group = check_group(body.consumer_group)
        held: list[MessageQueue] = []
        auto_create = self._options.current.auto_create_subscription_group
        if self._groups.find(group, auto_create=auto_create, by=connection) is not None:
            queues = [key.queue() for key in body.mq_set if self._queues.exists(key.topic, key.queue_id)]
            held = self._locks.lock(group, queues, body.client_id)
        return request.reply(body=LockBatchResponseBody([QueueKey.of(queue) for queue in held]).encode())

    def unlock(self, _: Connection, request: Command) -> Command:
        """Release the queues that a client holds."""
        body = body_of(LockBatchRequestBody, request)
        self._locks.unlock(body.consumer_group, [key.queue() for key in body.mq_set], body.client_id)
        return request.reply()
