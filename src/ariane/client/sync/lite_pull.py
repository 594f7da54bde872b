"""LitePullConsumer for threads, derived from ariane.client.consumer.lite_pull by scripts/derive_sync.py."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Unpack

from ariane.client.consumer.lite_engine import QueueListener
from ariane.client.consumer.lite_pull import LitePullConsumer as AsyncLitePullConsumer
from ariane.client.consumer.options import LiteKeywords, LiteOptions
from ariane.client.consumer.stats import ConsumerStats
from ariane.client.observe.hooks import ConsumeHook
from ariane.client.options import Selector
from ariane.client.sync.lifecycle import Lifecycle
from ariane.client.sync.portal import Portal
from ariane.env import Env
from ariane.message import MessageQueue, ReceivedMessage
from ariane.remoting import RpcHook


class LitePullConsumer(Lifecycle):
    """Polls messages of subscribed topics, whose queues the group shares, or of assigned queues.

    With `auto_commit` the offsets that `poll` has reached are committed every 5 s; otherwise call `commit`."""

    _client: AsyncLitePullConsumer

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
        self._portal = Portal.get()
        self._client = AsyncLitePullConsumer(
            group,
            subscriptions,
            options=options,
            consume_hooks=consume_hooks,
            queue_listener=queue_listener,
            rpc_hooks=rpc_hooks,
            env=env,
            **keywords,
        )

    @property
    def options(self) -> LiteOptions:
        """The options of this consumer."""
        return self._client.options

    def subscribe(self, topic: str, expression: Selector = "*", *, filter: Selector | None = None) -> None:
        """Subscribe to a topic, whose queues the group shares; `filter` is another name for `expression`."""
        self._portal.run(self._client.subscribe(topic, expression, filter=filter))

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        self._portal.run(self._client.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], expressions: Mapping[str, Selector] | None = None) -> None:
        """Read exactly these queues, without rebalancing."""
        self._portal.run(self._client.assign(queues, expressions))

    def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        """Return the next messages of one queue, waiting up to `timeout` seconds; empty when none arrived."""
        return self._portal.run(self._client.poll(timeout))

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

    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        return self._portal.run(self._client.assignment())

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic."""
        return self._portal.run(self._client.queues(topic))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling these queues."""
        self._portal.run(self._client.pause(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull these queues again."""
        self._portal.run(self._client.resume(queues))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset; ClientError when the queue is not assigned or has no such offset."""
        self._portal.run(self._client.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the first message."""
        self._portal.run(self._client.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue after the last message."""
        self._portal.run(self._client.seek_to_end(queue))

    def offset_for_time(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message stored at or after a time in milliseconds."""
        return self._portal.run(self._client.offset_for_time(queue, timestamp))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None, *, wait: bool = True) -> None:
        """Commit these offsets, or those that `poll` has reached; with `wait=False` without waiting for the broker."""
        self._portal.run(self._client.commit(offsets, wait=wait))

    def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group committed last; None when it never did."""
        return self._portal.run(self._client.committed(queue))

    def stats(self) -> ConsumerStats:
        """Rates and lag."""
        return self._portal.run(self._client.stats())
