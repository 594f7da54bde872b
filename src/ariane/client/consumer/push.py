"""The push consumer: calls a listener with messages."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from ariane.client.connect.instance import Instance
from ariane.client.connect.lifecycle import Lifecycle
from ariane.client.connect.namespaces import wrap
from ariane.client.consumer.listen.concurrently import Concurrently
from ariane.client.consumer.listen.handoff import Handoff
from ariane.client.consumer.listen.hook_calls import HookWatch
from ariane.client.consumer.listen.listener import ConsumeStatus, Listener, takes_delivery
from ariane.client.consumer.listen.orderly import Locks, Orderly
from ariane.client.consumer.listen.runners import make_runner
from ariane.client.consumer.listen.send_back import NO_LIMIT, SendBack
from ariane.client.consumer.options import Model, PushKeywords, PushOptions, subscription
from ariane.client.consumer.push_engine import Engine
from ariane.client.consumer.queues.offset_store import LocalOffsets, OffsetStore, RemoteOffsets, default_folder
from ariane.client.consumer.stats import ConsumerStats, Meter
from ariane.client.observe.hooks import ConsumeHook
from ariane.client.observe.telemetry import consume_with_telemetry
from ariane.client.observe.trace import Tracer
from ariane.client.options import Selector, WasmFilter, chosen
from ariane.client.producer.checks import check_group
from ariane.client.producer.internal import start_tracer
from ariane.env import Env
from ariane.errors import ClientError
from ariane.message import MessageQueue, ReceivedMessage, retry_topic
from ariane.protocol.bodies import CheckClientRequestBody, SubscriptionData
from ariane.protocol.codes import RequestCode
from ariane.remoting import RpcHook

MAX_TIMES = 16  # retries of a message by a concurrent consumer unless configured


class PushConsumer(Lifecycle):
    """Consumes topics: `PushConsumer("billing", "orders", listener)`, or `{"orders": "TagA || TagB"}` for some tags.

    A listener is a function or coroutine function of a list of messages (one, unless `consume_batch` is higher) that
    returns a `ConsumeStatus`. Without a listener, iterate: `async for message in consumer`. Asking for the next message
    acknowledges the last one; the message at which a loop breaks is delivered again.
    """

    def __init__(
        self,
        group: str,
        subscriptions: str | Mapping[str, Selector] | None = None,
        listener: Listener | None = None,
        *,
        options: PushOptions | None = None,
        consume_hooks: Sequence[ConsumeHook] = (),
        rpc_hooks: Sequence[RpcHook] = (),
        env: Env | None = None,
        **keywords: Unpack[PushKeywords],
    ) -> None:
        check_group(group)
        self._options = PushOptions.of(options, keywords)
        super().__init__("consumer", group, self._options, env, tuple(rpc_hooks))
        topics = {subscriptions: "*"} if isinstance(subscriptions, str) else dict(subscriptions or {})
        now = self._env.clock.now_ms()
        whole = {wrap(self._options.namespace, topic): wanted for topic, wanted in topics.items()}
        self._selectors: dict[str, Selector] = whole
        self._subscriptions = {topic: subscription(topic, wanted, now) for topic, wanted in whole.items()}
        if listener is not None:
            takes_delivery(listener)  # fail here, not at the first message, if the listener cannot be called
        self._handoff = Handoff() if listener is None else None
        self._listener = listener
        self._hooks = tuple(consume_hooks)
        self._engine_or_none: Engine | None = None
        self._tracer: Tracer | None = None

    @property
    def options(self) -> PushOptions:
        """The options of this consumer."""
        return self._options

    async def subscribe(self, topic: str, expression: Selector = "*", *, filter: Selector | None = None) -> None:
        """Subscribe to a topic, or change its expression; all consumers of a group must have the same subscriptions.

        `filter` is another name for `expression`: `subscribe("orders", filter=WasmFilter("orders.wasm"))`.
        """
        expression = chosen(expression, filter)
        topic = wrap(self._options.namespace, topic)
        wanted = subscription(topic, expression, self._env.clock.now_ms())
        self._selectors[topic] = expression
        self._subscriptions[topic] = wanted
        if self._engine_or_none is not None:
            instance = self._running()
            await self._check(instance, wanted)
            await instance.routes.refresh_quietly(topic)
            await instance.send_heartbeats()
            self._engine.announced()
            await self._engine.rebalance.now()

    async def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        topic = wrap(self._options.namespace, topic)
        if self._engine_or_none is not None:
            self._running()
            await self._engine.unsubscribe(topic)
        self._subscriptions.pop(topic, None)

    async def pause(self) -> None:
        """Stop pulling; cached messages are still consumed."""
        self._running()
        await self._engine.pause()

    async def resume(self) -> None:
        """Resume pulling."""
        self._running()
        self._engine.puller.going.set()
        self._engine.rebalance.soon()

    async def commit(self, *, wait: bool = True) -> None:
        """Commit the offsets now; otherwise they are committed every 5 s and at close."""
        self._running()
        await self._engine.offset_store.persist(list(self._engine.table), wait=wait)

    async def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        self._running()
        return sorted(self._engine.table)

    async def rebalance(self) -> None:
        """Rebalance now, without waiting for the next interval."""
        self._running()
        await self._engine.rebalance.now()

    async def stats(self) -> ConsumerStats:
        """Rates, times, lag, and a suggested number of threads."""
        self._running()
        return self._engine.stats(os.cpu_count() or 1)

    def __aiter__(self) -> AsyncGenerator[ReceivedMessage, None]:
        if self._handoff is None:
            raise ClientError("this consumer has a listener: make one without to iterate")
        self._running()
        return self._handoff.messages()

    @property
    def _engine(self) -> Engine:
        assert self._engine_or_none is not None
        return self._engine_or_none

    async def _open(self, instance: Instance) -> None:
        for wanted in self._subscriptions.values():
            await self._check(instance, wanted)
        if self._options.model is Model.CLUSTERING:
            own = retry_topic(self._group)
            self._subscriptions[own] = subscription(own, "*", self._env.clock.now_ms())
        hooks = consume_with_telemetry(self._hooks)
        if self._options.trace:
            self._tracer = start_tracer(instance, self._options, self._options.trace_topic)
            hooks = (*hooks, self._tracer)
        self._engine_or_none = self._build(instance, hooks)
        try:
            await self._engine.start()
        except BaseException:
            await self._engine.stop()
            raise

    def _build(self, instance: Instance, hooks: tuple[ConsumeHook, ...]) -> Engine:
        group, options = self._group, self._options
        listener = self._listener
        if listener is None:
            assert self._handoff is not None
            listener = self._handoff.listen
        orderly = options.orderly
        failure = ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if orderly else ConsumeStatus.RECONSUME_LATER
        watch = HookWatch(group, instance, hooks, failure, options.consume_timeout) if hooks else None
        runner = make_runner(listener, options.threads, self._env.clock, watch, f"ariane-listener-{group}")
        offsets, meter = self._offsets(instance), Meter(self._env.clock)
        back = SendBack(group, instance, options, self._max_times())
        locks = Locks(group, instance) if orderly and options.model is Model.CLUSTERING else None
        service: Concurrently | Orderly
        if orderly:
            service = Orderly(instance, options, runner, offsets, back, meter, locks or Locks(group, instance))
        else:
            service = Concurrently(instance, options, runner, offsets, back, meter)
        return Engine(
            group,
            instance,
            options,
            self._subscriptions,
            offsets,
            meter,
            runner,
            service,
            locks,
            listener,
            self._tracer,
        )

    def _max_times(self) -> int:
        if self._options.max_reconsume_times >= 0:
            return self._options.max_reconsume_times
        return NO_LIMIT if self._options.orderly else MAX_TIMES

    def _offsets(self, instance: Instance) -> OffsetStore:
        if self._options.model is Model.CLUSTERING:
            return RemoteOffsets(self._group, instance.calls)
        folder = Path(self._options.offset_folder or default_folder())
        return LocalOffsets(folder, instance.client_id, self._group, self._env.files)

    async def _check(self, instance: Instance, wanted: SubscriptionData) -> None:
        """Let a broker check an expression or take a module, so that a mistake in it is an error at once."""
        selector = self._selectors.get(wanted.topic, "*")
        instance.calls.uploads.remember(selector)
        if wanted.expression_type == "TAG" or not await instance.routes.refresh_quietly(wanted.topic):
            return
        route = await instance.routes.find(wanted.topic)
        address = next((instance.routes.master(queue.broker_name) for queue in route.read_queues), None)
        if isinstance(selector, WasmFilter):
            for name in {queue.broker_name for queue in route.read_queues}:
                if (master := instance.routes.master(name)) is not None:
                    await instance.calls.uploads.ensure(master, self._group, wanted.topic, selector)
        elif address is not None:
            body = CheckClientRequestBody(instance.client_id, self._group, wanted)
            await instance.wire.ask(address, RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())

    @property
    def needs_threads(self) -> bool:
        """Whether it uses a thread pool, which the interpreter shuts down first at exit."""
        return self._listener is not None

    async def _shut(self, instance: Instance) -> None:
        if self._handoff is not None:
            self._handoff.close()
        await self._engine.stop()
        if self._tracer is not None:
            await self._tracer.close()
