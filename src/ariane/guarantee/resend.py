"""Resending: find stubs whose messages were lost on their way, send them again, and call a person in the end."""

import asyncio
import logging
from dataclasses import dataclass

from sqlalchemy import Connection, Integer, bindparam, null, select, update

from ariane import MessageQueue, aio
from ariane.env import Clock
from ariane.errors import ArianeError, RouteMissing
from ariane.guarantee import log as message_log
from ariane.guarantee import stub
from ariane.guarantee.database import Database
from ariane.guarantee.notify import Notice, call
from ariane.guarantee.options import GuaranteeOptions
from ariane.guarantee.outbox import StagedMessage
from ariane.guarantee.send import is_hopeless, send_all
from ariane.guarantee.stub import Stub
from ariane.guarantee.tables import StubStatus, message_stub

log = logging.getLogger("ariane.guarantee")

NOTIFY_BATCH = 500

_c = message_stub.c
# Walks the index of due stubs from its beginning, however many stubs there are; other resenders skip these rows.
DUE = (
    select(message_stub)
    .where(_c.status == StubStatus.UNCONFIRMED, _c.resend_time <= bindparam("now"))
    .order_by(_c.resend_time)
    .limit(bindparam("most", type_=Integer))
    .with_for_update(skip_locked=True)
)
_CLAIM = (
    update(message_stub)
    .where(_c.message_id == bindparam("of_id"), _c.consumer_group == bindparam("of_group"))
    .values(resend_time=bindparam("until"))
)
TO_NOTIFY = (
    select(message_stub)
    .where(_c.notify_time <= bindparam("now"))
    .order_by(_c.notify_time)
    .limit(NOTIFY_BATCH)
    .with_for_update(skip_locked=True)
)
_CLAIM_NOTICE = (
    update(message_stub)
    .where(_c.message_id == bindparam("of_id"), _c.consumer_group == bindparam("of_group"))
    .values(notify_time=bindparam("until"))
)
_NOTIFIED = (
    update(message_stub)
    .where(_c.message_id == bindparam("of_id"), _c.consumer_group == bindparam("of_group"))
    .values(notify_time=null(), notified=bindparam("now"))
)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a group is in a queue, and which offsets the queue has."""

    committed: int | None
    least: int
    most: int

    def lost(self, offset: int) -> bool:
        """Whether the group cannot get this offset any more: it is past it, or the queue does not have it.

        >>> Position(committed=5, least=0, most=9).lost(4), Position(committed=5, least=0, most=9).lost(5)
        (True, False)
        >>> Position(committed=5, least=0, most=9).lost(9)  # the broker lost its data and counts from 0 again
        True
        """
        passed = self.committed is not None and self.committed > offset
        return passed or not self.least <= offset < self.most


Place = tuple[str, MessageQueue | None]
"""A consumer group, and a queue; None for a message that was never sent."""


@dataclass(slots=True)
class Pass:
    """What one look for due stubs came to."""

    claimed: int = 0
    resent: int = 0
    backlog: int = 0
    """Not resent: their group has not come to them yet."""
    received: int = 0
    """Not resent: their group has received them."""
    unreachable: int = 0
    """Not resent: a broker did not answer."""
    marked: int = 0
    notified: int = 0


class Resender:
    """Resends due stubs; any number of resenders share the work."""

    def __init__(
        self, database: Database, producer: aio.Producer, admin: aio.Admin, options: GuaranteeOptions, clock: Clock
    ) -> None:
        self._database = database
        self._producer = producer
        self._admin = admin
        self._options = options
        self._clock = clock

    async def run(self) -> None:
        """Resend and notify, pass after pass, until cancelled."""
        while True:
            try:
                done = await self.once()
            except Exception as error:  # the database is away: nothing is lost by waiting for it
                log.warning("a resend pass failed, the next follows in %g s: %s", self._options.poll_interval, error)
                done = Pass()
            if done.claimed < self._options.batch:
                await self._clock.sleep(self._options.poll_interval)

    async def once(self) -> Pass:
        """Look once for stubs that are due, and for stubs that wait for a person."""
        done = Pass()
        due = await self._database.run(self._claim_due)
        done.claimed = len(due)
        if due:
            await self._settle(due, done)
        done.notified = await self._notify()
        return done

    def _claim_due(self, connection: Connection) -> list[Stub]:
        now = self._clock.now_ms()
        until = now + int(self._options.claim * 1000)
        found = [Stub.of(row) for row in connection.execute(DUE, {"now": now, "most": self._options.batch})]
        for one in found:
            connection.execute(_CLAIM, {"of_id": one.message_id, "of_group": one.consumer_group, "until": until})
        return found

    async def _settle(self, due: list[Stub], done: Pass) -> None:
        patience = self._clock.now_ms() - int(self._options.log_patience * 1000)
        ids = list({one.message_id for one in due})
        received = await self._database.run(lambda c: message_log.received_since(c, ids, patience))
        positions, silent = await self._positions(due)
        postponed: list[Stub] = []
        marked: list[tuple[Stub, str]] = []
        lost: list[Stub] = []
        for one in due:
            place = (one.consumer_group, _queue(one))
            position = positions.get(place)
            if (one.message_id, one.consumer_group) in received:
                done.received += 1
                postponed.append(one)
            elif place in silent:
                done.unreachable += 1
                postponed.append(one)
            elif position is not None and one.queue_offset is not None and not position.lost(one.queue_offset):
                done.backlog += 1
                postponed.append(one)
            elif one.count >= self._options.max_sends:
                marked.append((one, f"sent {one.count} times and never confirmed by group {one.consumer_group}"))
            else:
                lost.append(one)
        results = await send_all(self._producer, [_staged(one) for one in lost])
        now = self._clock.now_ms()
        sends: list[stub.Sent] = []
        errors: list[tuple[Stub, ArianeError]] = []
        for one, result in zip(lost, results, strict=True):
            if not isinstance(result, ArianeError):
                next_time = now + int(self._options.next_resend(one.count + 1) * 1000)
                queue = result.queue
                sends.append(
                    stub.Sent(
                        one.message_id,
                        one.consumer_group,
                        queue.broker_name,
                        queue.queue_id,
                        result.queue_offset,
                        next_time,
                    )
                )
            elif is_hopeless(result):
                marked.append((one, f"cannot be sent: {result}"))
            else:
                errors.append((one, result))
        if errors:
            log.warning("%d messages could not be resent, the next try follows: %s", len(errors), errors[0][1])

        def record(connection: Connection) -> None:
            stub.record_sent(connection, sends)
            again = now + int(self._options.poll_interval * 1000)
            later = now + int(self._options.next_resend(1) * 1000)
            for one in postponed:
                stub.postpone(connection, one.message_id, one.consumer_group, later)
            for one, error in errors:
                stub.postpone(connection, one.message_id, one.consumer_group, again, str(error))
            for one, why in marked:
                stub.mark(connection, one.message_id, one.consumer_group, why, now)

        await self._database.run(record)
        done.resent, done.marked = len(sends), len(marked)
        done.unreachable += len(errors)

    async def _positions(self, due: list[Stub]) -> tuple[dict[Place, Position], set[Place]]:
        """Where the groups are in the queues of these stubs, and which places did not answer."""
        found: dict[Place, Position] = {}
        silent: set[Place] = set()
        for place in {(one.consumer_group, _queue(one)) for one in due}:
            group, queue = place
            if queue is None:
                continue
            try:
                committed, least, most = await asyncio.gather(
                    self._admin.committed(group, queue), self._admin.min_offset(queue), self._admin.max_offset(queue)
                )
                found[place] = Position(committed, least, most)
            except RouteMissing:  # topic or broker is gone, and the message with it
                found[place] = Position(None, 0, 0)
            except ArianeError as error:
                log.warning("stubs of %s wait, for its broker does not answer: %s", queue, error)
                silent.add(place)
        return found, silent

    async def _notify(self) -> int:
        """Notify a person of stubs that wait for one, together."""
        stubs = await self._database.run(self._claim_notices)
        if not stubs:
            return 0
        notice = Notice(tuple(stubs))
        log.warning("%s", notice.subject)
        failed = 0
        for notifier in self._options.notify:
            try:
                await call(notifier, notice)
            except Exception as error:
                log.warning("%r failed: %s", notifier, error)
                failed += 1
        if failed and failed == len(self._options.notify):
            return 0  # the claim runs out, then it is tried again
        now = self._clock.now_ms()

        def settle(connection: Connection) -> None:
            for one in stubs:
                connection.execute(_NOTIFIED, {"of_id": one.message_id, "of_group": one.consumer_group, "now": now})

        await self._database.run(settle)
        return len(stubs)

    def _claim_notices(self, connection: Connection) -> list[Stub]:
        now = self._clock.now_ms()
        until = now + int(self._options.claim * 1000)
        found = [Stub.of(row) for row in connection.execute(TO_NOTIFY, {"now": now})]
        for one in found:
            connection.execute(_CLAIM_NOTICE, {"of_id": one.message_id, "of_group": one.consumer_group, "until": until})
        return found


def _queue(one: Stub) -> MessageQueue | None:
    if one.broker_name is None or one.queue_id is None:
        return None
    return MessageQueue(one.topic, one.broker_name, one.queue_id)


def _staged(one: Stub) -> StagedMessage:
    return StagedMessage(one.message_id, one.topic, one.content, one.tag, one.keys, one.properties, one.hash_key)
