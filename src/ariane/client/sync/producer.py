"""Producer for threads, derived from ariane.client.producer.producer by scripts/derive_sync.py."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Unpack

from ariane.client.observe.hooks import ForbidHook, SendHook
from ariane.client.producer.options import ProducerKeywords, ProducerOptions
from ariane.client.producer.producer import Callback
from ariane.client.producer.producer import Producer as AsyncProducer
from ariane.client.producer.queue_choice import Selector
from ariane.client.results import SendResult
from ariane.client.sync.lifecycle import Lifecycle
from ariane.client.sync.portal import Portal
from ariane.env import Env
from ariane.message import Message, MessageQueue, ReceivedMessage
from ariane.remoting import RpcHook


class Producer(Lifecycle):
    """Sends messages. Options are keywords, e.g. `Producer("orders", name_servers="127.0.0.1:9876", retries=5)`."""

    _client: AsyncProducer

    def __init__(
        self,
        group: str,
        *,
        options: ProducerOptions | None = None,
        send_hooks: Sequence[SendHook] = (),
        forbid_hooks: Sequence[ForbidHook] = (),
        rpc_hooks: Sequence[RpcHook] = (),
        env: Env | None = None,
        **keywords: Unpack[ProducerKeywords],
    ) -> None:
        self._portal = Portal.get()
        self._client = AsyncProducer(
            group,
            options=options,
            send_hooks=send_hooks,
            forbid_hooks=forbid_hooks,
            rpc_hooks=rpc_hooks,
            env=env,
            **keywords,
        )

    @property
    def options(self) -> ProducerOptions:
        """The options of this producer."""
        return self._client.options

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send and wait until the message is stored.

        Without a queue, selector or hash key the producer chooses queues in turn, and tries another broker when one
        fails. A message for a given queue is tried once: elsewhere it would be out of order. When too many messages
        are in flight (`max_in_flight`), the call first waits for room.
        """
        self._portal.check_caller()
        return self._client.send_in_thread(self._portal.run, message, queue, selector, hash_key, timeout)

    def submit(
        self,
        message: Message,
        *,
        callback: Callback | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> Future[SendResult]:
        """Send without waiting: returns a future, and calls `callback` when it is done.

        A request without a response is tried again on the same broker. When too many messages are in flight
        (`max_in_flight`), the message waits for room, or BufferFull is raised, as `when_full` says; a thread waits in
        this call, a coroutine at the future.
        """
        client = self._client
        return self._portal.follow_in(
            client.room,
            len(message.body),
            lambda: client.submit_in_room(message, callback, queue, selector, hash_key, timeout),
            wait=client.options.when_full == "wait",
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
    ) -> None:
        """Send without a response: fast, and without knowing whether the message was stored."""
        self._portal.run(self._client.send_oneway(message, queue=queue, selector=selector, hash_key=hash_key))

    def cancel(self, message: Message, result: SendResult, *, timeout: float | None = None) -> None:
        """Cancel the delivery of a message that was sent with `deliver_at` and is not due yet; `result` is its result.

        BrokerRefused when it was already due. RocketMQ's brokers cancel from 5.1 on.
        """
        self._portal.run(self._client.cancel(message, result, timeout=timeout))

    def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]:
        """Send messages of one topic together, in as few requests as the size limit allows; returns a result for each.

        When a part fails, the error's `sent` has the results of the parts before it.
        """
        return self._portal.run(self._client.send_batch(messages, queue=queue, timeout=timeout))

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> ReceivedMessage:
        """Send a request and wait for the reply of a consumer; ReplyTimeout without one."""
        return self._portal.run(
            self._client.request(message, queue=queue, selector=selector, hash_key=hash_key, timeout=timeout)
        )

    def reply(self, request: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult:
        """Reply to a request that a consumer received."""
        return self._portal.run(self._client.reply(request, body, timeout=timeout))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written to."""
        return self._portal.run(self._client.queues(topic))
