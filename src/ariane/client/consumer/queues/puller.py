"""Long polls of one queue while its cache has room: one at a time, or several when the queue is far behind."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ariane.client.connect.broker_calls import pull_result
from ariane.client.connect.instance import Instance
from ariane.client.connect.namespaces import unwrap
from ariane.client.connect.routes import MASTER
from ariane.client.connect.tasks import Tasks
from ariane.client.consumer.options import ConsumerOptions
from ariane.client.consumer.queues.offset_store import OffsetStore
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.consumer.queues.pull_requests import PullRequests, SentPulls
from ariane.client.consumer.stats import Meter
from ariane.client.decoding import decode_messages
from ariane.client.options import Expression, Selector, Sql, WasmFilter
from ariane.client.results import PullResult, PullStatus
from ariane.errors import ArianeError, BrokerRefused, RemotingError, RouteMissing
from ariane.message import MAX_OFFSET, MIN_OFFSET, RETRY_PREFIX, RETRY_TOPIC, MessageQueue, ReceivedMessage
from ariane.protocol.bodies import SubscriptionData
from ariane.protocol.codes import ResponseCode

log = logging.getLogger("ariane.client")

FLOW_CONTROL_PAUSE = 0.02
PULL_MARGIN = 15.0  # seconds beyond the time that a broker may hold a pull; Apache's checks held ones every 5 s
MOST_AHEAD = (
    31  # pulls of one queue on their way together; a broker answers each with 32 messages unless told otherwise
)
FIRST_PAUSE = 0.1  # seconds to pause after an error; doubled with each consecutive one
_UNKNOWN_TO_BROKER = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)


@dataclass
class Limits:
    """Limits of the cache of one queue; None: no limit."""

    messages: int
    size: int
    span: int | None


class PullTasks:
    """The tasks that pull the queues held, each supervised."""

    def __init__(self, tasks: Tasks, pull: Callable[[ProcessQueue], Coroutine[Any, Any, None]]) -> None:
        self._tasks = tasks
        self._pull = pull
        self._running: dict[MessageQueue, asyncio.Task[None]] = {}

    def start(self, cache: ProcessQueue) -> None:
        """Pull a queue from now on."""
        task = self._tasks.supervise(f"pulling of {cache.queue}", lambda: self._pull(cache))
        self._running[cache.queue] = task

    async def stop(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling these queues, and cancel pulls that brokers hold."""
        tasks = [task for queue in queues if (task := self._running.pop(queue, None)) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def restart(self, caches: Sequence[ProcessQueue]) -> None:
        """Cancel pulls that brokers hold, and begin again: after a pause their responses must not arrive."""
        await self.stop([cache.queue for cache in caches])
        for cache in caches:
            self.start(cache)


class Puller:
    """Pulls queues for a consumer."""

    def __init__(
        self,
        group: str,
        instance: Instance,
        options: ConsumerOptions,
        offsets: OffsetStore,
        limits: Limits,
        meter: Meter,
        sys_flag: int,
    ) -> None:
        self._group = group
        self._instance = instance
        self._clock = instance.env.clock
        self._options = options
        self._offsets = offsets
        self._limits = limits
        self._meter = meter
        self._sys_flag = sys_flag
        self._suggested: dict[MessageQueue, int] = {}
        self._requests = PullRequests(group, instance.calls, options.pull_batch)
        self.subscription: Callable[[str], SubscriptionData | None] = lambda topic: None
        self.deliver: Callable[[ProcessQueue, list[ReceivedMessage]], None] = lambda queue, messages: None
        self.gone: Callable[[ProcessQueue, int], None] = lambda queue, offset: None
        """Called with a valid offset when the pulled one is out of range."""
        self.versions: dict[str, int] = {}
        """The versions of subscriptions that brokers know: a pull with a newer one would be refused."""
        self.going = asyncio.Event()
        """Cleared while the consumer is paused."""
        self.going.set()
        self.interval = 0.0

    def has_room(self, queue: ProcessQueue) -> bool:
        """Whether more of this queue may be cached."""
        limits = self._limits
        if queue.count > limits.messages or queue.size > limits.size:
            return False
        return limits.span is None or queue.span <= limits.span

    async def pull_once(self, queue: ProcessQueue) -> None:
        """Pull once: wait for room, ask the broker, deliver. After an error, pause."""
        queue.held_back = True
        try:
            await self.going.wait()
            while not self.has_room(queue) and not queue.dropped:
                self._meter.flow_controls += 1
                queue.changed.clear()
                await queue.changed.wait()
        finally:
            queue.held_back = False
        subscription = self.subscription(queue.queue.topic)
        if queue.dropped:
            return
        if subscription is None:  # unsubscribed meanwhile: the next rebalance releases the queue
            await self._clock.sleep(FIRST_PAUSE)
            return
        queue.last_pull = started = self._clock.monotonic()
        offsets = self._offsets_to_pull(queue)
        try:
            pulls = await self._send(queue, subscription, offsets)
            try:
                for number, offset in enumerate(offsets):
                    if queue.dropped or queue.next_offset != offset:
                        break  # the pull before it ended elsewhere than expected: ask again
                    result = pull_result(pulls.address, await pulls.response(number))
                    self._suggested[queue.queue] = result.suggested_broker
                    self._meter.pulled(queue.queue.topic, self._clock.monotonic() - started)
                    self._take(queue, subscription, result)
            finally:
                pulls.forget()
        except ArianeError as error:  # no response, or not message units: ask the broker again
            await self._pause_after(queue, error)
            return
        queue.failures = 0
        if self.interval > 0:
            await self._clock.sleep(self.interval)

    def _offsets_to_pull(self, queue: ProcessQueue) -> list[int]:
        """The offsets of the next pulls: several when the last response told that the broker has so much more.

        Each pull is expected to return as many messages as the last full one did. All are before the end of the queue,
        so that the broker holds none of them, and together they fit into the limits of the cache.
        """
        limits, step = self._limits, queue.pull_step
        ahead = 1
        if step > 0 and self.interval <= 0:
            left = [queue.max_offset - queue.next_offset, limits.messages - queue.count]
            if limits.span is not None:
                left.append(limits.span - queue.span)
            room = (limits.size - queue.size) // max(1, queue.pull_bytes)
            ahead = max(1, min(MOST_AHEAD, room, min(left) // step))
        return [queue.next_offset + number * step for number in range(ahead)]

    async def _send(self, queue: ProcessQueue, subscription: SubscriptionData, offsets: list[int]) -> SentPulls:
        """Send pulls.

        A pull could carry the group's offset too, but Apache's broker may handle it after a later commit and move the
        offset back. So offsets are committed by requests of their own.
        """
        suspend = self._options.poll_suspend
        conditions = self._selector(subscription), self._sys_flag, suspend, self.versions.get(queue.queue.topic, 0)
        broker_id = self._suggested.get(queue.queue, MASTER)
        return await self._requests.send(
            queue.queue, offsets, broker_id, conditions, PULL_MARGIN + suspend, queue.last_pull
        )

    def _selector(self, subscription: SubscriptionData) -> Selector:
        text, kind = subscription.sub_string, subscription.expression_type
        if kind == "TAG":
            return text
        if kind == WasmFilter.kind:
            return self._instance.calls.uploads.known(text)
        return Sql(text) if kind == Sql.kind else Expression(text, subscription.class_filter_mode)

    async def _pause_after(self, queue: ProcessQueue, error: ArianeError) -> None:
        code = error.code if isinstance(error, BrokerRefused) else None
        if code == ResponseCode.FLOW_CONTROL:
            await self._clock.sleep(FLOW_CONTROL_PAUSE)
            return
        if not queue.queue.topic.startswith(RETRY_PREFIX):
            log.warning("%s: pull of %s failed: %s", self._group, queue.queue, error)
        self._suggested.pop(queue.queue, None)
        if code in _UNKNOWN_TO_BROKER:  # the broker restarted: it needs a heartbeat first
            await self._instance.send_heartbeats()
        if isinstance(error, (RemotingError, RouteMissing)):
            await self._instance.routes.refresh_quietly(queue.queue.topic)
        await self._clock.sleep(min(FIRST_PAUSE * 2**queue.failures, self._options.error_pause))
        queue.failures += 1

    def _take(self, queue: ProcessQueue, subscription: SubscriptionData, result: PullResult) -> None:
        queue.max_offset = result.max_offset
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "%s: offset %d is out of range of %s: continuing at %d",
                self._group,
                queue.next_offset,
                queue.queue,
                result.next_offset,
            )
            self.gone(queue, result.next_offset)
            return
        messages: list[ReceivedMessage] = []
        if result.status is PullStatus.FOUND:
            if result.next_offset < result.max_offset or not queue.pull_step:
                queue.pull_step = result.next_offset - queue.next_offset
                queue.pull_bytes = len(result.body)
            messages = queue.put(self._decode(queue.queue, subscription, result))
        queue.next_offset = result.next_offset
        if messages:
            self._meter.received(queue.queue.topic, len(messages))
            self.deliver(queue, messages)
        elif queue.is_empty:  # nothing matched: advance the offset, or the lag would never shrink
            self._offsets.update(queue.queue, result.next_offset, only_forward=True)

    def _decode(self, queue: MessageQueue, subscription: SubscriptionData, result: PullResult) -> list[ReceivedMessage]:
        more = {MIN_OFFSET: str(result.min_offset), MAX_OFFSET: str(result.max_offset)}
        messages = _wanted(decode_messages(result.body, queue.broker_name, more), subscription)
        retry, namespace = RETRY_PREFIX + self._group, self._options.namespace
        for message in messages:
            if message.decode_error is not None:
                log.warning(
                    "%s: message %s of %s is delivered as it is stored, with decode_error set: %s",
                    self._group,
                    message.message_id,
                    message.queue,
                    message.decode_error,
                )
        if queue.topic == retry:
            for message in messages:
                message.topic = message.properties.get(RETRY_TOPIC, retry)
        if namespace:
            for message in messages:
                message.topic = unwrap(namespace, message.topic)
        return messages


def _wanted(messages: list[ReceivedMessage], subscription: SubscriptionData) -> list[ReceivedMessage]:
    """Filter by tag: brokers compare only the hashes of tags."""
    if not subscription.tags_set:
        return messages
    tags = set(subscription.tags_set)
    return [message for message in messages if message.tags in tags]
