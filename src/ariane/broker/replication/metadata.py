"""A slave's copies of its master's tables: topics, groups, committed offsets, progress of delays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ariane.broker.delay.progress import DelayProgress
from ariane.broker.periodic import Periodic
from ariane.broker.registration import Registration
from ariane.broker.replication.peers import Peers
from ariane.broker.replication.waiting import happens
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable, split_key
from ariane.broker.tables.persistence import Persistence
from ariane.broker.tables.topics import TopicTable
from ariane.broker.transactions.half_messages import CHECK_GROUP
from ariane.env import Clock
from ariane.errors import ArianeError
from ariane.protocol.bodies import ConsumerOffsetTable, SubscriptionGroupTable, TopicConfigTable
from ariane.protocol.codes import RequestCode
from ariane.store import MessageStore
from ariane.store.queue.consumequeue import ConsumeQueue

log = logging.getLogger("ariane.broker.replication")

INTERVAL: Final = 10.0  # seconds between two rounds, as in Apache's slave
SHORT: Final = 1.0  # seconds between checks whether pending progress can be applied, and between copies of few offsets
FEW: Final = 64 << 10  # bytes of a table of offsets that is copied so often


class MetadataCopy:
    """Runs on a slave: copies the master's tables at once and each 10 s.

    The progress of delays and of transaction checks refers to messages that the master has stored again. It is applied
    once the local log has reached the end that the master's log had: earlier, a promotion would lose those messages.
    """

    def __init__(
        self,
        peers: Peers,
        registration: Registration,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        progress: DelayProgress,
        persistence: Persistence,
        store: MessageStore,
        clock: Clock,
        *,
        master_address: Callable[[], str | None],
    ) -> None:
        self._peers = peers
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._progress = progress
        self._store = store
        self._clock = clock
        self._master_address = master_address
        self._file = persistence.table("committedOnSlave.json", self._encode, self._decode)
        self._saved = b""
        self._waiting: tuple[int, bytes, ConsumerOffsetTable] | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._short = Periodic(clock, SHORT, self._each_second, name="take progress that waited for the log")
        self._offsets_size = 0  # bytes of the master's table of offsets
        self._asked: set[str] = set()  # topics that triggered a round since the last regular one
        self.rounds = 0
        """Complete rounds since the start."""
        self.failure = ""
        """Why the last round was not complete; empty when it was."""
        self.covered: Callable[[], bool] = lambda: False
        """Whether topics, groups and offsets arrive in the log of a DLedger group, and need not be copied."""
        self.more: list[Callable[[str], Awaitable[None]]] = []
        """Copies of further tables, called with the master's address."""
        registration.on_master.append(self.soon)

    async def start(self) -> None:
        """Begin to copy, with a round at once."""
        self._offsets.copies_master = True
        self._store.table.on_created.append(self._queue_created)
        self._file.load()
        self._waiting = None
        self._short.start()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="copy the master's tables")

    async def stop(self) -> None:
        """Stop copying. Offsets that clients committed here are in the table of offsets."""
        await self._short.stop()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._queue_created in self._store.table.on_created:
            self._store.table.on_created.remove(self._queue_created)
        await self._save()
        self._offsets.copies_master = False

    async def forget(self) -> None:
        """The broker is a master now: offsets committed here are the master's."""
        self._offsets.committed_here.clear()
        await self._save()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            master = self._master_address()
            if master is not None:
                await self.round(master)
            if not await happens(self._news, INTERVAL, self._clock):
                self._asked.clear()

    def soon(self) -> None:
        """Copy the tables now: the master is back, or its tables have changed."""
        self._news.set()

    def _queue_created(self, queue: ConsumeQueue) -> None:
        """Copy the tables at once for a new topic: its messages cannot be read before."""
        if not self.covered() and queue.topic not in self._asked and queue.topic not in self._topics:
            self._asked.add(queue.topic)
            self._news.set()

    async def round(self, master: str) -> None:
        """Copy all tables. A failure is logged once, until a round succeeds, and leaves the rest for the next round."""
        try:
            if not self.covered():
                await self._copy_topics(master)
                await self._copy_groups(master)
            await self._copy_progress(master)
            for copy in self.more:
                await copy(master)
        except Exception as error:
            if not isinstance(error, (ArianeError, ValueError)):
                log.exception("the tables of %s were not copied", master)
            elif not self.failure:
                log.warning("the tables of the master %s are not copied: %s", master, error)
            self.failure = str(error) or type(error).__name__
        else:
            if self.failure:
                log.info("the tables of the master %s are copied again", master)
            self.failure = ""
            self.rounds += 1

    async def _copy_topics(self, master: str) -> None:
        answer = await self._peers.ask(master, RequestCode.GET_ALL_TOPIC_CONFIG)
        table = await asyncio.to_thread(TopicConfigTable.decode, answer.body)
        if table.data_version != self._topics.version and not self.covered():
            # A master that has lost its topics.json counts from 0 again: nothing was deleted there.
            if self.rounds and table.data_version.counter > self._topics.version.counter:
                for topic in self._topics.names() - table.topic_config_table.keys():
                    self._store.delete_topic(topic)
                    self._offsets.remove_topic(topic)
            self._topics.replace(table)

    async def _copy_groups(self, master: str) -> None:
        answer = await self._peers.ask(master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        table = await asyncio.to_thread(SubscriptionGroupTable.decode, answer.body)
        if table.data_version != self._groups.version and not self.covered():
            self._groups.replace(table)

    async def _copy_progress(self, master: str) -> None:
        answer = await self._peers.ask(master, RequestCode.GET_ALL_CONSUMER_OFFSET)
        self._offsets_size = len(answer.body)
        table = await asyncio.to_thread(ConsumerOffsetTable.decode, answer.body)
        delays = (await self._peers.ask(master, RequestCode.GET_ALL_DELAY_OFFSET)).body
        users = _of_users(table)
        checks = {key: queues for key, queues in table.offset_table.items() if key not in users}
        if self.covered():
            users, checks = {}, {}
        ahead = self._offsets.take_from_master(ConsumerOffsetTable(users))
        # A master that has lost the end of its log stores other messages at the offsets that were read here.
        if ahead.offset_table and (await self._peers.state(master)).log_max >= self._store.log_max:
            log.info("the master %s gets the offsets that were committed here while it was away", master)
            await self._peers.commit(master, ahead)
        if self._waiting is None:
            end = (await self._peers.state(master)).log_max
            self._waiting = end, delays, ConsumerOffsetTable(checks)
            await self._take_waiting()

    async def _take_waiting(self) -> None:
        if self._waiting is None or self._store.log_max < self._waiting[0]:
            return
        (_, delays, checks), self._waiting = self._waiting, None
        self._offsets.take_from_master(checks)
        if delays:
            await self._progress.copy(delays)

    async def _copy_few_offsets(self) -> None:
        """Copy the offsets of users between two rounds, so that a promotion repeats a second and not ten."""
        master = self._master_address()
        if master is None or not self.rounds or self.failure or self._offsets_size > FEW or self.covered():
            return
        try:
            answer = await self._peers.ask(master, RequestCode.GET_ALL_CONSUMER_OFFSET)
        except ArianeError:
            return  # the next round reports it
        self._offsets_size = len(answer.body)
        self._offsets.take_from_master(ConsumerOffsetTable(_of_users(ConsumerOffsetTable.decode(answer.body))))

    async def _each_second(self) -> None:
        await self._take_waiting()
        await self._copy_few_offsets()
        await self._save()

    # Offsets that clients committed here, kept over restarts.

    async def _save(self) -> None:
        data = self._encode()
        if data != self._saved and await self._file.save():
            self._saved = data

    def _encode(self) -> bytes:
        return ConsumerOffsetTable(self._offsets.committed_here).encode()

    def _decode(self, data: bytes) -> None:
        self._saved = data
        self._offsets.committed_here = ConsumerOffsetTable.decode(data).offset_table


def _of_users(table: ConsumerOffsetTable) -> dict[str, dict[int, int]]:
    """The offsets without those of transaction checks, which refer to messages that the master has stored again."""
    return {key: queues for key, queues in table.offset_table.items() if split_key(key)[1] != CHECK_GROUP}
