"""Delayed and transactional messages as a part of a broker: stored, kept over restarts, started and stopped."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import TYPE_CHECKING

from ariane.broker.delay.delivery import Delay
from ariane.broker.periodic import Periodic
from ariane.broker.stats.names import SCHEDULE_GROUP
from ariane.broker.tables.persistence import JOURNAL_INTERVAL
from ariane.broker.transactions.check import TransactionCheck
from ariane.broker.transactions.half_messages import HALF_QUEUE, Transactions, is_prepared, make_half
from ariane.broker.unit_copy import topic_of
from ariane.message import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC
from ariane.protocol.properties import delay_level
from ariane.protocol.units import Unit
from ariane.remoting import Connection
from ariane.store import STORED, PutResult

if TYPE_CHECKING:
    from ariane.broker.server import Broker

log = logging.getLogger("ariane.broker")


class MessageKinds:
    """The kinds of messages that take another way than straight into their queue."""

    def __init__(self, broker: Broker) -> None:
        clock = broker.env.clock
        self._broker = broker
        self._turn = itertools.count()
        self._recovery: asyncio.Task[None] | None = None
        self.delay = Delay(broker.options.delay_levels_ms, broker.store, self._deliver, clock)
        self.transactions = Transactions(
            broker.store, broker.writer.append, host=lambda: broker.writer.host, now_ms=clock.now_ms
        )
        self.check = TransactionCheck(
            self.transactions.queue,
            broker.store,
            broker.writer.append,
            broker.offsets,
            self.some_producer,
            lambda: broker.options,
            clock,
            give_up_topic=lambda: self._ensure(CHECK_MAX_TIME_TOPIC),
        )
        self._snapshot = b""  # progress whose messages are on the disk
        self._journaled = b""  # the same, as last appended to the journal
        self._file = broker.persistence.journaled(
            "delayOffset.json", lambda: self._snapshot, self._load, self._take_changes, self._load
        )
        self._periodics = [
            Periodic(clock, JOURNAL_INTERVAL, self._append, name="append delay offsets to the journal"),
            Periodic(
                clock,
                broker.options.flush_delay_offset_interval_ms / 1000,
                self.save,
                name="save delay offsets",
            ),
            Periodic(
                clock,
                lambda: broker.options.transaction_check_interval_ms / 1000,
                self._check_round,
                name="check half messages",
            ),
        ]
        broker.writer.rewriters.append(self.rewrite)

    # Storing.

    def rewrite(self, unit: Unit) -> None:
        """Send a half or a delayed message its own way; a half message is delayed when it is committed."""
        if is_prepared(unit):
            self._ensure(HALF_TOPIC)
            make_half(unit)
        else:
            self.delay.rewrite(unit)

    def _deliver(self, unit: Unit) -> PutResult:
        """Store a delayed message that is due under its own topic, and count it there."""
        broker = self._broker
        result = broker.writer.append(unit)
        if result.status in STORED and broker.options.enable_schedule_message_stats:
            broker.stats.put(topic_of(unit), unit.queue_id, 1, result.size)
            broker.stats.got(SCHEDULE_GROUP, SCHEDULE_TOPIC, delay_level(unit.properties) - 1, 1, result.size, 0)
        return result

    def _ensure(self, topic: str) -> None:
        if topic not in self._broker.topics:
            self._broker.topics.ensure(topic, HALF_QUEUE + 1)

    # Asking producers.

    def some_producer(self, group: str) -> Connection | None:
        """A connected producer of a group; each time another, so that one that hangs does not hold up the group."""
        members = [client.connection for client in self._broker.clients.producers(group) if client.connection.is_open]
        return members[next(self._turn) % len(members)] if members else None

    async def _check_round(self) -> None:
        self._ensure(HALF_TOPIC)
        await self.recovered()
        await self.check.round()
        self._broker.store.dispatch_now()

    # Life.

    def start(self) -> None:
        self._file.load()
        self.delay.correct()
        if self._broker.options.broker_role == "SLAVE":
            return  # a slave has what its master delivered and decided
        self.check.load()
        self._recovery = asyncio.get_running_loop().create_task(self.check.recover(), name="read decided transactions")
        self.delay.start()
        for periodic in self._periodics:
            periodic.start()

    async def stop(self) -> None:
        """Stop and keep how far everything came."""
        for periodic in self._periodics:
            await periodic.stop()
        await self.delay.stop()
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
            self.check.keep()
            await self._broker.persistence.save_offsets()
            await self.save()

    async def recovered(self) -> None:
        """Wait until it is known which half messages earlier runs decided."""
        if self._recovery is not None and not self._recovery.done():
            await asyncio.shield(self._recovery)

    @property
    def is_recovered(self) -> bool:
        return self._recovery is not None and self._recovery.done()

    async def save(self) -> None:
        """Write how far each delay level came."""
        if await self._take_snapshot():
            await self._file.save()

    async def _append(self) -> None:
        """Append how far each delay level came to the journal."""
        if self.delay.encode() != self._snapshot and await self._take_snapshot():
            await self._file.append()

    async def _take_snapshot(self) -> bool:
        """Take the progress once the delivered messages are on the disk: else a power cut would lose them."""
        snapshot, end = self.delay.encode(), self.delay.durable_end()
        if not await self._flushed(end):
            log.warning("delay offsets are not saved: the log is not flushed up to %d", end)
            return False
        self._snapshot = snapshot
        return True

    def _load(self, data: bytes) -> None:
        self.delay.load(data)
        self._snapshot = self.delay.encode()

    def _take_changes(self) -> bytes:
        if self._snapshot == self._journaled:
            return b""
        self._journaled = self._snapshot
        return self._snapshot

    async def _flushed(self, end: int) -> bool:
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def flushed(ok: bool) -> None:
            if not done.done():
                done.set_result(ok)

        self._broker.store.when_flushed(end, flushed)
        return await done
