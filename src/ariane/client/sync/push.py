"""PushConsumer for threads, derived from ariane.client.consumer.push by scripts/derive_sync.py."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Unpack

from ariane.client.consumer.listen.listener import Listener
from ariane.client.consumer.options import PushKeywords, PushOptions
from ariane.client.consumer.push import PushConsumer as AsyncPushConsumer
from ariane.client.consumer.stats import ConsumerStats
from ariane.client.observe.hooks import ConsumeHook
from ariane.client.options import Selector
from ariane.client.sync.lifecycle import Lifecycle
from ariane.client.sync.portal import Portal
from ariane.env import Env
from ariane.message import MessageQueue, ReceivedMessage
from ariane.remoting import RpcHook


class PushConsumer(Lifecycle):
    """Consumes topics: `PushConsumer("billing", "orders", listener)`, or `{"orders": "TagA || TagB"}` for some tags.

    A listener is a function or coroutine function of a list of messages (one, unless `consume_batch` is higher) that
    returns a `ConsumeStatus`. Without a listener, iterate: `async for message in consumer`. Asking for the next message
    acknowledges the last one; the message at which a loop breaks is delivered again."""

    _client: AsyncPushConsumer

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
        self._portal = Portal.get()
        self._client = AsyncPushConsumer(
            group,
            subscriptions,
            listener,
            options=options,
            consume_hooks=consume_hooks,
            rpc_hooks=rpc_hooks,
            env=env,
            **keywords,
        )

    @property
    def options(self) -> PushOptions:
        """The options of this consumer."""
        return self._client.options

    def subscribe(self, topic: str, expression: Selector = "*", *, filter: Selector | None = None) -> None:
        """Subscribe to a topic, or change its expression; all consumers of a group must have the same subscriptions.

        `filter` is another name for `expression`: `subscribe("orders", filter=WasmFilter("orders.wasm"))`.
        """
        self._portal.run(self._client.subscribe(topic, expression, filter=filter))

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        self._portal.run(self._client.unsubscribe(topic))

    def pause(self) -> None:
        """Stop pulling; cached messages are still consumed."""
        self._portal.run(self._client.pause())

    def resume(self) -> None:
        """Resume pulling."""
        self._portal.run(self._client.resume())

    def commit(self, *, wait: bool = True) -> None:
        """Commit the offsets now; otherwise they are committed every 5 s and at close."""
        self._portal.run(self._client.commit(wait=wait))

    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        return self._portal.run(self._client.queues())

    def rebalance(self) -> None:
        """Rebalance now, without waiting for the next interval."""
        self._portal.run(self._client.rebalance())

    def stats(self) -> ConsumerStats:
        """Rates, times, lag, and a suggested number of threads."""
        return self._portal.run(self._client.stats())

    def __iter__(self) -> Iterator[ReceivedMessage]:
        iterator = self._client.__aiter__()
        while True:
            try:
                message = self._portal.next(iterator)
            except StopAsyncIteration:
                return
            try:
                yield message
            except GeneratorExit:  # the loop broke off: the message comes again
                self._portal.finish(iterator)
                raise
