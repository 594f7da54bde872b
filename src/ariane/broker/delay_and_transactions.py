"""Delayed, timed and transactional messages together: selects which one redirects a message, starts and stops them."""

import asyncio
import itertools
import logging
from collections.abc import Callable

from ariane.broker.config.live import LiveOptions
from ariane.broker.delay.delivery import Delay
from ariane.broker.delay.progress import DelayProgress
from ariane.broker.message_writer import MessageWriter
from ariane.broker.periodic import Periodic
from ariane.broker.stats import BrokerStats
from ariane.broker.stats.names import SCHEDULE_GROUP
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import Persistence
from ariane.broker.tables.topics import TopicTable
from ariane.broker.timers.timers import Timers
from ariane.broker.transactions.check import TransactionCheck
from ariane.broker.transactions.half_messages import HALF_QUEUE, Transactions, is_prepared, make_half
from ariane.broker.unit_copy import topic_of
from ariane.env import Clock
from ariane.message import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ariane.protocol.properties import delay_level
from ariane.protocol.units import Unit
from ariane.remoting import Connection
from ariane.store import STORED, MessageStore, PutResult

log = logging.getLogger("ariane.broker")

RECOVERY_RETRY = 1.0  # seconds until a failed reading of the half and op queues is repeated


class DelayAndTransactions:
    """The messages that are not stored straight into their queue."""

    def __init__(
        self,
        store: MessageStore,
        writer: MessageWriter,
        topics: TopicTable,
        offsets: OffsetTable,
        clients: ClientTable,
        persistence: Persistence,
        stats: BrokerStats,
        options: LiveOptions,
        clock: Clock,
    ) -> None:
        self._store = store
        self._writer = writer
        self._topics = topics
        self._clients = clients
        self._persistence = persistence
        self._stats = stats
        self._options = options
        self._clock = clock
        self._turn = itertools.count()
        self.may_write: Callable[[Connection, str], bool] = lambda _, __: True
        """Whether the account of a connection may write to a topic; access control replaces it."""
        self._recovery: asyncio.Task[None] | None = None
        self.delay = Delay(options.current.delay_levels_ms, store, self._deliver, clock)
        self.progress = DelayProgress(
            self.delay, store, persistence, clock, interval=options.current.flush_delay_offset_interval_ms / 1000
        )
        self.timers = Timers(
            store,
            self._deliver_timed,
            clock,
            store.env.files,
            store.layout.root / "timerwheel",
            enabled=lambda: options.current.timer_wheel_enable,
            longest_ms=lambda: options.current.timer_max_delay_sec * 1000,
        )
        self.transactions = Transactions(store, writer.append, host=lambda: writer.host, now_ms=clock.now_ms)
        self.check = TransactionCheck(
            self.transactions.queue,
            store,
            writer.append,
            offsets,
            self.some_producer,
            lambda: options.current,
            clock,
            give_up_topic=lambda: self._ensure(CHECK_MAX_TIME_TOPIC),
            flushed=self._flushed,
        )
        store.on_cut.append(self.check.cut)
        self._periodics = [
            *self.progress.periodics(),
            Periodic(
                clock,
                lambda: options.current.transaction_check_interval_ms / 1000,
                self._check_round,
                name="check half messages",
            ),
        ]
        writer.rewriters.append(self.rewrite)

    def rewrite(self, unit: Unit) -> None:
        """Redirect a half, a delayed or a timed message. A half message is delayed when it is committed.

        ResponseError when a message asks for a time that is not allowed.
        """
        if is_prepared(unit):
            self.timers.check(unit)
            self._ensure(HALF_TOPIC)
            make_half(unit)
        else:
            self.postpone(unit)

    def postpone(self, unit: Unit) -> None:
        """Redirect a delayed or a timed message."""
        if not self.timers.rewrite(unit):
            self.delay.rewrite(unit)

    def some_producer(self, group: str, topic: str) -> Connection | None:
        """A connected producer of a group, in rotation: one that hangs does not block the group.

        The check shows it the message, so it must have write permission for the topic: any client may join a group.
        """
        joined = [client.connection for client in self._clients.producers(group)]
        members = [connection for connection in joined if connection.is_open and self.may_write(connection, topic)]
        return members[next(self._turn) % len(members)] if members else None

    def _deliver(self, unit: Unit) -> PutResult:
        """Store a delayed message that is due under its own topic, and count it there."""
        result = self._writer.append(unit)
        if result.status in STORED and self._options.current.enable_schedule_message_stats:
            self._stats.put(topic_of(unit), unit.queue_id, 1, result.size)
            self._stats.got(SCHEDULE_GROUP, SCHEDULE_TOPIC, delay_level(unit.properties) - 1, 1, result.size, 0)
        return result

    def _deliver_timed(self, unit: Unit) -> PutResult:
        """Store a due timed message under its own topic, and count it there; or a progress record of the timers."""
        result = self._writer.append(unit)
        topic = topic_of(unit)
        if result.status in STORED and topic != TIMER_TOPIC:
            self._stats.put(topic, unit.queue_id, 1, result.size)
        return result

    def _ensure(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.ensure(topic, HALF_QUEUE + 1)

    async def _check_round(self) -> None:
        self._ensure(HALF_TOPIC)
        await self.recovered()
        await self.check.round()
        self._store.dispatch_now()

    async def _flushed(self) -> bool:
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._store.when_flushed(self._store.log.written, lambda ok: None if done.done() else done.set_result(ok))
        return await done

    # Start and stop.

    def load(self) -> None:
        """Load the progress of the delay levels. Call it once, before the role starts."""
        self.progress.load()

    async def start(self) -> None:
        """The broker is a master: deliver delayed messages and check half messages from now on."""
        self.delay.correct()
        self.transactions.queue.clear()
        self.check.load()
        self._recovery = asyncio.get_running_loop().create_task(self._recover(), name="read decided transactions")
        self.delay.start()
        self.timers.start()
        for periodic in self._periodics:
            periodic.start()

    async def stop(self) -> None:
        """Stop, and save the progress."""
        for periodic in self._periodics:
            await periodic.stop()
        await self.delay.stop()
        await self.timers.stop()
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
            self._recovery = None
            await self.check.keep()
            await self._persistence.save_offsets()
            await self.progress.save()

    async def _recover(self) -> None:
        """Read the decisions in the op queue. No new decision can be taken before, so retry until it works."""
        while True:
            try:
                await self.check.recover()
            except Exception:
                log.exception("the half messages could not be read; retrying")
                await self._clock.sleep(RECOVERY_RETRY)
            else:
                return

    async def recovered(self) -> None:
        """Wait until the decisions of earlier runs are read."""
        if self._recovery is not None and not self._recovery.done():
            await asyncio.shield(self._recovery)

    @property
    def is_recovered(self) -> bool:
        """Whether the decisions of earlier runs are read."""
        return self._recovery is not None and self._recovery.done()
