"""The lite pull consumer: the caller polls messages and controls offsets."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from ariane.client.connect.broker_calls import LITE_PULL
from ariane.client.connect.instance import Instance
from ariane.client.connect.lifecycle import Lifecycle
from ariane.client.connect.namespaces import wrap
from ariane.client.consumer.lite_engine import LiteEngine, QueueListener
from ariane.client.consumer.options import LiteKeywords, LiteOptions, Model, subscription
from ariane.client.consumer.queues.offset_store import LocalOffsets, OffsetStore, RemoteOffsets, default_folder
from ariane.client.consumer.stats import ConsumerStats
from ariane.client.observe.hooks import ConsumeHook
from ariane.client.observe.trace import Tracer
from ariane.client.options import Selector, chosen
from ariane.client.producer.checks import check_group
from ariane.client.producer.internal import start_tracer
from ariane.env import Env
from ariane.errors import ClientError
from ariane.message import MessageQueue, ReceivedMessage
from ariane.protocol.headers.consume import SUBSCRIPTION
from ariane.remoting import RpcHook

log = logging.getLogger("ariane.client")


class LitePullConsumer(Lifecycle):
    """Polls messages of subscribed topics, whose queues the group shares, or of assigned queues.

    With `auto_commit` the offsets that `poll` has reached are committed every 5 s; otherwise call `commit`.
    """

    def __init__(
        self,
        group: str,
        subscriptions: str | Mapping[str, Selector] | None = None,
        *,
        options: LiteOptions | None = None,
        consume_hooks: Sequence[ConsumeHook] = (),
        queue_listener: QueueListener | None = None,
        rpc_hooks: Sequence[RpcHook] = (),
        env: Env | None = None,
        **keywords: Unpack[LiteKeywords],
    ) -> None:
        check_group(group)
        self._options = LiteOptions.of(options, keywords)
        super().__init__("consumer", group, self._options, env, tuple(rpc_hooks))
        topics = {subscriptions: "*"} if isinstance(subscriptions, str) else dict(subscriptions or {})
        now = self._env.clock.now_ms()
        whole = {wrap(self._options.namespace, topic): wanted for topic, wanted in topics.items()}
        self._selectors: dict[str, Selector] = whole
        self._subscriptions = {topic: subscription(topic, wanted, now) for topic, wanted in whole.items()}
        self._assigned: list[MessageQueue] = []
        self._expressions: dict[str, Selector] = {}
        self._hooks = tuple(consume_hooks)
        self._queue_listener = queue_listener
        self._tracer: Tracer | None = None
        self._engine_or_none: LiteEngine | None = None

    @property
    def options(self) -> LiteOptions:
        """The options of this consumer."""
        return self._options

    async def subscribe(self, topic: str, expression: Selector = "*", *, filter: Selector | None = None) -> None:
        """Subscribe to a topic, whose queues the group shares; `filter` is another name for `expression`."""
        expression = chosen(expression, filter)
        if self._assigned:
            raise ClientError("queues are assigned: make another consumer to subscribe")
        topic = wrap(self._options.namespace, topic)
        self._selectors[topic] = expression
        self._subscriptions[topic] = subscription(topic, expression, self._env.clock.now_ms())
        if self._engine_or_none is not None:
            instance = self._running()
            instance.calls.uploads.remember(expression)
            await instance.routes.refresh_quietly(topic)
            await instance.send_heartbeats()
            self._engine.announced()
            await self._engine.rebalance.now()

    async def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        topic = wrap(self._options.namespace, topic)
        self._subscriptions.pop(topic, None)
        if self._engine_or_none is not None:
            self._running()
            await self._engine.give_up_topic(topic)

    async def assign(self, queues: Iterable[MessageQueue], expressions: Mapping[str, Selector] | None = None) -> None:
        """Read exactly these queues, without rebalancing."""
        if self._subscriptions:
            raise ClientError("topics are subscribed: make another consumer to assign queues")
        self._assigned = sorted(queues)
        if not self._assigned:
            raise ClientError("assign needs at least one queue")
        self._expressions.update(expressions or {})
        if self._engine_or_none is not None:
            self._running()
            await self._engine.hold(set(self._assigned), self._expressions)

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        """Return the next messages of one queue, waiting up to `timeout` seconds; empty when none arrived."""
        self._running()
        return await self._engine.poll(timeout)

    async def __aiter__(self) -> AsyncGenerator[ReceivedMessage, None]:
        self._running()
        while not self._engine.closed:
            for message in await self._engine.poll(self._options.poll_suspend):
                yield message

    async def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        self._running()
        return sorted(self._engine.table)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic."""
        return await self._running().calls.queues(wrap(self._options.namespace, topic))

    async def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling these queues."""
        self._running()
        await self._engine.pause(queues)

    async def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull these queues again."""
        self._running()
        self._engine.resume(queues)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset; ClientError when the queue is not assigned or has no such offset."""
        calls = self._running().calls
        self._engine.check_held(queue)
        first, last = await calls.min_offset(queue), await calls.max_offset(queue)
        if not first <= offset <= last:
            raise ClientError(f"{queue} has offsets from {first} to {last}: cannot go to {offset}")
        await self._engine.seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the first message."""
        await self.seek(queue, await self._running().calls.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue after the last message."""
        await self.seek(queue, await self._running().calls.max_offset(queue))

    async def offset_for_time(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message stored at or after a time in milliseconds."""
        return await self._running().calls.search_offset(queue, timestamp)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None, *, wait: bool = True) -> None:
        """Commit these offsets, or those that `poll` has reached; with `wait=False` without waiting for the broker."""
        self._running()
        await self._engine.commit(offsets, wait=wait)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group committed last; None when it never did."""
        self._running()
        return await self._engine.committed(queue)

    async def stats(self) -> ConsumerStats:
        """Rates and lag."""
        self._running()
        return self._engine.stats()

    @property
    def _engine(self) -> LiteEngine:
        assert self._engine_or_none is not None
        return self._engine_or_none

    def _offsets(self, instance: Instance) -> OffsetStore:
        if self._options.model is Model.CLUSTERING:
            return RemoteOffsets(self._group, instance.calls)
        folder = Path(self._options.offset_folder or default_folder())
        return LocalOffsets(folder, instance.client_id, self._group, self._env.files)

    async def _open(self, instance: Instance) -> None:
        hooks = self._hooks
        if self._options.trace:
            self._tracer = start_tracer(instance, self._options, self._options.trace_topic)
            hooks = (*hooks, self._tracer)
        engine = LiteEngine(
            self._group, instance, self._options, self._subscriptions, self._offsets(instance), LITE_PULL | SUBSCRIPTION
        )
        engine.hooks = hooks
        engine.queue_listener = self._queue_listener
        self._engine_or_none = engine
        for selector in self._selectors.values():
            instance.calls.uploads.remember(selector)
        await engine.start()
        if self._assigned:
            await engine.hold(set(self._assigned), self._expressions)

    async def _shut(self, instance: Instance) -> None:
        await asyncio.shield(self._engine.stop())
        if self._tracer is not None:
            await self._tracer.close()
