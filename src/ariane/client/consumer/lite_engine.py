"""The engine of a lite pull consumer: pulls ahead, and tracks the offsets that the caller has polled."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from ariane.client.connect.instance import Instance
from ariane.client.consumer.options import LiteOptions, subscription
from ariane.client.consumer.queues.offset_store import OffsetStore
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.consumer.queues.puller import PULL_MARGIN, Limits, Puller, PullTasks
from ariane.client.consumer.queues.rebalance import Rebalance
from ariane.client.consumer.queues.start_offset import start_offset
from ariane.client.consumer.running_info import lite_properties
from ariane.client.consumer.stats import ConsumerStats, Meter, QueueLag
from ariane.client.observe.hooks import ConsumeContext, ConsumeHook, call_hooks
from ariane.client.options import Selector
from ariane.errors import ArianeError, ClientError, ResponseError
from ariane.message import MessageQueue, ReceivedMessage
from ariane.protocol.bodies import ConsumeMessageDirectlyResult, ConsumerData, ConsumerRunningInfo, SubscriptionData
from ariane.protocol.codes import ResponseCode

log = logging.getLogger("ariane.client")

QueueListener = Callable[[str, set[MessageQueue], set[MessageQueue]], None]
"""Called with a topic, the queues held before, and those held now."""


class LiteEngine:
    """Holds the queues of a lite pull consumer."""

    def __init__(
        self,
        group: str,
        instance: Instance,
        options: LiteOptions,
        subscriptions: dict[str, SubscriptionData],
        offsets: OffsetStore,
        sys_flag: int,
    ) -> None:
        self._group = group
        self._instance = instance
        self._clock = instance.env.clock
        self._options = options
        self._subscriptions = subscriptions
        self._started_ms = self._clock.now_ms()
        self._assigned: dict[str, SubscriptionData] = {}
        self.offset_store = offsets
        self._meter = Meter(self._clock)
        self.hooks: Sequence[ConsumeHook] = ()
        self.queue_listener: QueueListener | None = None
        self.table: dict[MessageQueue, ProcessQueue] = {}
        self._pulls = PullTasks(instance.tasks, self._pull)
        self._paused: set[MessageQueue] = set()
        self._ready: deque[tuple[ProcessQueue, list[ReceivedMessage]]] = deque()
        self._arrived = asyncio.Event()
        self._regular: list[asyncio.Task[None]] = []
        self.closed = False
        limits = Limits(options.max_cached_messages, options.max_cached_bytes, options.max_span)
        self.puller = Puller(group, instance, options, offsets, limits, self._meter, sys_flag)
        self.puller.subscription = lambda topic: self._subscriptions.get(topic) or self._assigned.get(topic)
        self.puller.deliver = self._deliver
        self.puller.gone = self._offset_gone
        self.rebalance = Rebalance(group, instance, options, lambda: subscriptions.keys(), self._divide, self.announced)

    async def start(self) -> None:
        """Join the group and take the first queues."""
        instance = self._instance
        instance.consumers[self._group] = self
        for topic in list(self._subscriptions):
            await instance.routes.refresh_quietly(topic)
        await instance.send_heartbeats(complain=True)
        self.announced()
        await self.rebalance.join()
        self.rebalance.start()
        if self._options.auto_commit:
            self._regular.append(instance.tasks.every(self._options.persist_interval, self.persist))

    async def stop(self) -> None:
        """Stop pulling, persist the offsets, and leave the group."""
        self.closed = True
        self._arrived.set()
        await self.rebalance.stop()
        for task in self._regular:
            task.cancel()
        for queue in self.table.values():
            queue.drop()
        await self._pulls.stop(list(self.table))
        if self._options.auto_commit:
            await self.offset_store.persist(list(self.table), wait=True)
        self._instance.consumers.pop(self._group, None)
        await self._instance.unregister(consumer_group=self._group)

    async def persist(self) -> None:
        """Persist the offsets."""
        await self.offset_store.persist(list(self.table))

    def announced(self) -> None:
        """Note that brokers know the subscriptions as they are now."""
        self.puller.versions = {topic: wanted.sub_version for topic, wanted in self._subscriptions.items()}

    # Queues are taken and released.

    async def _divide(self, topic: str, mine: set[MessageQueue]) -> bool:
        before = {queue for queue in self.table if queue.topic == topic}
        changed = await self._change(before, mine)
        if changed:
            self._subscriptions[topic].sub_version = self._clock.now_ms()
            if self.queue_listener is not None:
                try:
                    self.queue_listener(topic, before, mine)
                except Exception:
                    log.exception("%s: the queue listener failed", self._group)
        return changed

    async def hold(self, queues: set[MessageQueue], expressions: Mapping[str, Selector]) -> None:
        """Hold exactly these queues."""
        for topic in {queue.topic for queue in queues}:
            self._instance.calls.uploads.remember(expressions.get(topic, "*"))
            self._assigned[topic] = subscription(topic, expressions.get(topic, "*"), self._clock.now_ms())
            await self._instance.routes.refresh_quietly(topic)
        await self._change(set(self.table), queues)

    async def give_up_topic(self, topic: str) -> None:
        """Release all queues of a topic."""
        await self._change({queue for queue in self.table if queue.topic == topic}, set())

    async def _change(self, before: set[MessageQueue], after: set[MessageQueue]) -> bool:
        gone = await asyncio.gather(*(self._release(queue) for queue in before - after))
        new = await asyncio.gather(*(self._take(queue) for queue in sorted(after - self.table.keys())))
        return bool(gone) or any(new)

    async def _take(self, queue: MessageQueue) -> bool:
        cache = ProcessQueue(queue, self._clock)
        self.offset_store.forget(queue)
        try:
            cache.next_offset = await start_offset(
                self._instance.calls, self._options, self.offset_store, queue, self._clock.now_ms()
            )
        except ArianeError as error:
            log.warning("%s: cannot take %s now, trying again at the next rebalance: %s", self._group, queue, error)
            return False
        self.table[queue] = cache
        self._pulls.start(cache)
        return True

    async def _release(self, queue: MessageQueue) -> None:
        cache = self.table.pop(queue)
        cache.drop()
        await self._pulls.stop([queue])
        self._forget_ready(queue)
        if self._options.auto_commit:
            await self.offset_store.persist([queue], wait=True)
        self.offset_store.forget(queue)

    async def _pull(self, cache: ProcessQueue) -> None:
        while not cache.dropped:
            if cache.queue in self._paused or self._is_full():
                cache.changed.clear()
                await cache.changed.wait()
                continue
            await self.puller.pull_once(cache)

    def _is_full(self) -> bool:
        return len(self._ready) * self._options.pull_batch > self._options.max_cached_messages_in_all

    def _deliver(self, cache: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self._ready.append((cache, messages))
        self._arrived.set()

    def _forget_ready(self, queue: MessageQueue) -> None:
        self._ready = deque(entry for entry in self._ready if entry[0].queue != queue)

    # Calls of the user.

    async def poll(self, timeout: float) -> list[ReceivedMessage]:
        """The next messages of one queue."""
        try:
            async with asyncio.timeout(max(0.0, timeout)):
                while not self._ready and not self.closed:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return []
        if not self._ready:
            return []
        cache, messages = self._ready.popleft()
        offset = cache.remove(messages)
        if offset is not None:
            self.offset_store.update(cache.queue, offset, only_forward=False)
        for held in self.table.values():  # wake pulls that waited for room
            held.changed.set()
        self._meter.consumed(cache.queue.topic, len(messages), 0, 0.0, None)
        self._call_hooks(cache.queue, messages)
        return messages

    def _call_hooks(self, queue: MessageQueue, messages: list[ReceivedMessage]) -> None:
        if not self.hooks:
            return
        instance = self._instance
        context = ConsumeContext(self._group, queue, messages, instance.client_id, instance.address)
        call_hooks([hook.before_consume for hook in self.hooks], context)
        context.status, context.success, context.returned = "CONSUME_SUCCESS", True, "SUCCESS"
        call_hooks([hook.after_consume for hook in self.hooks], context)

    async def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling these queues, and cancel pulls that brokers hold."""
        self._paused |= set(queues)
        await self._pulls.restart([self.table[queue] for queue in self._paused & self.table.keys()])

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull these queues again."""
        self._paused -= set(queues)
        for cache in self.table.values():
            cache.changed.set()

    def check_held(self, queue: MessageQueue) -> None:
        """ClientError unless the queue is held."""
        if queue not in self.table:
            raise ClientError(f"{queue} is not assigned to this consumer (is the group rebalancing?)")

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Drop what was pulled ahead and continue at an offset."""
        cache = self.table[queue]
        cache.drop()
        await self._pulls.stop([queue])
        self._forget_ready(queue)
        fresh = ProcessQueue(queue, self._clock)
        fresh.next_offset = offset
        self.offset_store.update(queue, offset, only_forward=False)
        self.table[queue] = fresh
        self._pulls.start(fresh)

    def _offset_gone(self, cache: ProcessQueue, offset: int) -> None:
        cache.next_offset = offset

    async def commit(self, offsets: Mapping[MessageQueue, int] | None, *, wait: bool) -> None:
        """Persist the given offsets, or those that the caller has polled to."""
        for queue, offset in (offsets or {}).items():
            self.offset_store.update(queue, offset, only_forward=False)
        await self.offset_store.persist(list(self.table if offsets is None else offsets), wait=wait)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset in the store, not the one in memory, which may be ahead of it."""
        return await self.offset_store.committed(queue)

    # Requests from brokers.

    def describe(self) -> ConsumerData:
        """The group and its subscriptions, for heartbeats."""
        options, subscriptions = self._options, list(self._subscriptions.values())
        return ConsumerData(
            self._group, "CONSUME_ACTIVELY", options.model.value, options.consume_from.value, subscriptions
        )

    def rebalance_soon(self) -> None:
        """Rebalance soon: members have joined or left."""
        self.rebalance.soon()

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets in memory."""
        return self.offset_store.table(topic)

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at other offsets, as an administrator asks."""
        for queue in [queue for queue in self.table if queue.topic == topic and queue in offsets]:
            await self.seek(queue, offsets[queue])
        await self.persist()

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        """Refuse: a consumer that polls has no listener."""
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"consumer group {self._group} polls: it has no listener")

    def running_info(self) -> ConsumerRunningInfo:
        """Describe this consumer for `mqadmin consumerStatus`."""
        table = {queue: cache.describe(self.offset_store.known(queue) or -1) for queue, cache in self.table.items()}
        parts = {"messageQueueListener": self.queue_listener, "offsetStore": self.offset_store}
        properties = lite_properties(self._group, self._options, parts, PULL_MARGIN, self._started_ms)
        return ConsumerRunningInfo(table, properties, list(self._subscriptions.values()))

    def stats(self) -> ConsumerStats:
        """Rates and lag."""
        known = self.offset_store.known
        queues = [QueueLag(queue, cache.count, cache.lag(known(queue))) for queue, cache in self.table.items()]
        return ConsumerStats(self._meter.topics(), queues, None, None, 0, None, 0, self._meter.flow_controls)
