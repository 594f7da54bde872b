"""The engine of a push consumer: takes, pulls and releases queues, and answers requests of brokers."""

import asyncio
import logging
from collections.abc import Mapping

from ariane.client.connect.instance import Instance
from ariane.client.consumer.listen.concurrently import Concurrently
from ariane.client.consumer.listen.consume_directly import consume_directly
from ariane.client.consumer.listen.listener import Listener
from ariane.client.consumer.listen.orderly import LOCK_INTERVAL, Locks, Orderly
from ariane.client.consumer.listen.runners import Runner
from ariane.client.consumer.options import PushOptions
from ariane.client.consumer.queues.offset_store import OffsetStore
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.consumer.queues.puller import Limits, Puller, PullTasks
from ariane.client.consumer.queues.rebalance import Rebalance
from ariane.client.consumer.queues.start_offset import start_offset
from ariane.client.consumer.running_info import push_properties
from ariane.client.consumer.stats import ConsumerStats, Meter, QueueLag, suggest_threads
from ariane.client.observe.trace import Tracer
from ariane.errors import ArianeError
from ariane.message import MessageQueue, ReceivedMessage
from ariane.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
    ConsumeStatus,
    SubscriptionData,
)

log = logging.getLogger("ariane.client")

DRAIN = 1.0  # seconds that running listener calls get when their queue is released
EXPIRY_CHECK = 30.0


class Engine:
    """Holds the queues of a push consumer."""

    def __init__(
        self,
        group: str,
        instance: Instance,
        options: PushOptions,
        subscriptions: dict[str, SubscriptionData],
        offsets: OffsetStore,
        meter: Meter,
        runner: Runner,
        service: Concurrently | Orderly,
        locks: Locks | None,
        listener: Listener,
        tracer: Tracer | None,
    ) -> None:
        self._group = group
        self._instance = instance
        self._clock = instance.env.clock
        self._options = options
        self._subscriptions = subscriptions
        self.offset_store = offsets
        self._meter = meter
        self._runner = runner
        self._service = service
        self._locks = locks
        self._listener = listener
        self._tracer = tracer
        self._started_ms = self._clock.now_ms()
        self.table: dict[MessageQueue, ProcessQueue] = {}
        self._pulls = PullTasks(instance.tasks, self._pull)
        self._regular: list[asyncio.Task[None]] = []
        span = None if options.orderly else options.max_span
        self._limits = Limits(options.max_cached_messages, options.max_cached_bytes, span)
        self.puller = Puller(group, instance, options, offsets, self._limits, meter, 0)
        self.puller.interval = options.pull_interval
        self.puller.subscription = subscriptions.get
        self.puller.deliver = service.deliver
        self.puller.gone = self._offset_gone
        self.rebalance = Rebalance(group, instance, options, lambda: subscriptions.keys(), self._divide, self.announced)

    async def start(self) -> None:
        """Join the group and take the first queues."""
        instance, options = self._instance, self._options
        instance.consumers[self._group] = self
        for topic in list(self._subscriptions):
            await instance.routes.refresh_quietly(topic)
        await instance.send_heartbeats(complain=True)
        self.announced()
        await self.rebalance.join()
        self.rebalance.start()
        self._regular.append(instance.tasks.every(options.persist_interval, self.persist))
        if isinstance(self._service, Concurrently):
            interval = min(options.consume_timeout, EXPIRY_CHECK)
            self._regular.append(instance.tasks.every(interval, self._service.expire))
        if self._locks is not None:
            self._regular.append(instance.tasks.every(LOCK_INTERVAL, self._renew_locks))

    async def stop(self) -> None:
        """Stop pulling, let listener calls finish, persist the offsets, and leave the group."""
        await self.rebalance.stop()
        for task in self._regular:
            task.cancel()
        for queue in self.table.values():
            queue.drop()
        await self._pulls.stop(list(self.table))
        await self._service.close()
        await self.offset_store.persist(list(self.table), wait=True)
        if self._locks is not None:
            await self._locks.unlock(list(self.table.values()))
        for queue in self.table.values():
            self._meter.duplicates_risked += queue.repeats_if_dropped()
            queue.abandoned = True
        self.table.clear()
        self._instance.consumers.pop(self._group, None)
        await self._instance.unregister(consumer_group=self._group)

    async def persist(self) -> None:
        """Persist the offsets."""
        await self.offset_store.persist(list(self.table))

    async def _renew_locks(self) -> None:
        assert self._locks is not None
        await self._locks.lock([queue for queue in self.table.values() if not queue.dropped])

    def announced(self) -> None:
        """Note that brokers know the subscriptions as they are now."""
        self.puller.versions = {topic: wanted.sub_version for topic, wanted in self._subscriptions.items()}

    # Queues are taken and released.

    async def _divide(self, topic: str, mine: set[MessageQueue]) -> bool:
        held = [queue for queue in self.table.values() if queue.queue.topic == topic]
        lost = [queue for queue in held if queue.queue not in mine or queue.is_stuck()]
        gone = await asyncio.gather(*(self._release(queue) for queue in lost))
        new = [queue for queue in sorted(mine) if queue not in self.table]
        taken = await asyncio.gather(*(self._take(queue) for queue in new))
        if not any(gone) and not any(taken):
            return False
        self._subscriptions[topic].sub_version = self._clock.now_ms()
        self._share_limits()
        return True

    def _share_limits(self) -> None:
        """Divide a limit for a topic among the queues held."""
        options, count = self._options, max(1, len(self.table))
        if options.max_cached_messages_of_topic > 0:
            self._limits.messages = max(1, options.max_cached_messages_of_topic // count)
        if options.max_cached_bytes_of_topic > 0:
            self._limits.size = max(1, options.max_cached_bytes_of_topic // count)

    async def _take(self, queue: MessageQueue) -> bool:
        cache = ProcessQueue(queue, self._clock)
        try:
            if self._locks is not None:
                await self._locks.lock([cache])
                if not cache.locked:
                    return False  # still locked by its previous owner: try again at the next rebalance
            self.offset_store.forget(queue)
            cache.next_offset = await self._start_offset(queue)
        except ArianeError as error:
            log.warning("%s: cannot take %s now, trying again at the next rebalance: %s", self._group, queue, error)
            return False
        if self.puller.subscription(queue.topic) is None:
            return False  # unsubscribed while its offset was read
        self.table[queue] = cache
        self._pulls.start(cache)
        return True

    async def _start_offset(self, queue: MessageQueue) -> int:
        now = self._clock.now_ms()
        return await start_offset(self._instance.calls, self._options, self.offset_store, queue, now)

    async def _pull(self, cache: ProcessQueue) -> None:
        while not cache.dropped:
            if self._locks is not None and not cache.locked:
                await self._clock.sleep(self._options.error_pause)
                continue
            await self.puller.pull_once(cache)

    async def pause(self) -> None:
        """Stop pulling, and cancel pulls that brokers hold: their responses would arrive in spite of the pause."""
        self.puller.going.clear()
        await self._pulls.restart([cache for cache in self.table.values() if not cache.dropped])

    async def _release(self, cache: ProcessQueue) -> bool:
        """Drain the queue, persist its offset, unlock it: in this order, so that few messages are delivered twice."""
        cache.drop()
        await self._pulls.stop([cache.queue])
        drained = await cache.drained(DRAIN)
        if not drained and self._locks is not None:
            cache.unlock_tries += 1  # keep the lock until the listener call ends, to preserve order
            self._instance.tasks.spawn(self._rebalance_when_drained(cache))
            return False
        self._meter.duplicates_risked += cache.repeats_if_dropped()
        await self._store_and_forget(cache)
        return True

    async def _rebalance_when_drained(self, cache: ProcessQueue) -> None:
        if await cache.drained(self._options.rebalance_interval):
            self.rebalance.soon()

    async def _store_and_forget(self, cache: ProcessQueue) -> None:
        cache.abandoned = True
        await self.offset_store.persist([cache.queue], wait=True)
        self.offset_store.forget(cache.queue)
        if self._locks is not None:
            await self._locks.unlock([cache])
        if self.table.get(cache.queue) is cache:
            del self.table[cache.queue]

    def _offset_gone(self, cache: ProcessQueue, offset: int) -> None:
        self._instance.tasks.spawn(self._move(cache, offset))

    async def _move(self, cache: ProcessQueue, offset: int) -> None:
        """Continue at another offset: release the queue, then take it again."""
        cache.drop()
        await self._pulls.stop([cache.queue])
        await cache.drained(DRAIN)
        cache.abandoned = True
        cache.clear()
        self.offset_store.update(cache.queue, offset, only_forward=False)
        await self._store_and_forget(cache)
        self.rebalance.soon()

    async def unsubscribe(self, topic: str) -> None:
        """Release all queues of a topic."""
        self._subscriptions.pop(topic, None)
        await asyncio.gather(
            *(self._release(queue) for queue in list(self.table.values()) if queue.queue.topic == topic)
        )
        await self._instance.send_heartbeats()

    # Requests from brokers.

    def describe(self) -> ConsumerData:
        """The group and its subscriptions, for heartbeats."""
        options, subscriptions = self._options, list(self._subscriptions.values())
        return ConsumerData(
            self._group, "CONSUME_PASSIVELY", options.model.value, options.consume_from.value, subscriptions
        )

    def rebalance_soon(self) -> None:
        """Rebalance soon: members have joined or left."""
        self.rebalance.soon()

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets in memory."""
        return self.offset_store.table(topic)

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at other offsets, as an administrator asks."""
        moved = [queue for queue in self.table.values() if queue.queue.topic == topic and queue.queue in offsets]
        log.info("%s: an administrator resets the offsets of %s: %s", self._group, topic, offsets)
        await asyncio.gather(*(self._move(queue, offsets[queue.queue]) for queue in moved))

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        """Call the listener with a message that an administrator chose."""
        namespace, orderly = self._options.namespace, self._options.orderly
        return await consume_directly(self._group, namespace, self._runner, message, self._clock, orderly=orderly)

    def running_info(self) -> ConsumerRunningInfo:
        """Describe this consumer for `mqadmin consumerStatus`."""
        store = self.offset_store
        table = {queue: cache.describe(store.known(queue) or -1) for queue, cache in self.table.items()}
        parts = {"messageListener": self._listener, "offsetStore": store, "traceDispatcher": self._tracer}
        properties = push_properties(
            self._group, self._options, self._subscriptions, parts, self._runner.size, self._started_ms
        )
        topics = self._meter.topics()
        statuses = {
            topic: ConsumeStatus(
                topics[topic].pull_seconds * 1000,
                topics[topic].received_per_second,
                topics[topic].consume_seconds * 1000,
                topics[topic].succeeded_per_second,
                topics[topic].failed_per_second,
                topics[topic].failed,
            )
            for topic in self._subscriptions
            if topic in topics
        }
        return ConsumerRunningInfo(table, properties, list(self._subscriptions.values()), statuses)

    def stats(self, processors: int) -> ConsumerStats:
        """The statistics of this consumer."""
        times = self._meter.times()
        return ConsumerStats(
            self._meter.topics(),
            [QueueLag(q, cache.count, cache.lag(self.offset_store.known(q))) for q, cache in self.table.items()],
            None if times is None else times[0],
            None if times is None else times[1],
            self._runner.size,
            None if times is None else suggest_threads(processors, *times),
            self._meter.duplicates_risked,
            self._meter.flow_controls,
        )
