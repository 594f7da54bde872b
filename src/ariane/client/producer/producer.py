"""The producer: all ways to send."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Unpack

from ariane.client.connect.instance import Instance
from ariane.client.connect.lifecycle import Lifecycle
from ariane.client.connect.namespaces import wrap
from ariane.client.observe.hooks import ForbidHook, SendHook, SendMode
from ariane.client.observe.telemetry import with_telemetry
from ariane.client.observe.trace import Tracer
from ariane.client.producer.batcher import Batcher, may_be_batched
from ariane.client.producer.checks import check_batch, check_group, check_message, check_target
from ariane.client.producer.internal import start_tracer
from ariane.client.producer.options import ProducerKeywords, ProducerOptions
from ariane.client.producer.outgoing import Outgoing, Packer
from ariane.client.producer.queue_choice import Selector, by_hash
from ariane.client.producer.request_reply import as_request, reply_to
from ariane.client.producer.room import Room
from ariane.client.producer.sending import Sender
from ariane.client.results import SendResult
from ariane.env import Env
from ariane.errors import ArianeError, InvalidMessage, ReplyTimeout, RequestTimeout, SendError
from ariane.message import DELIVER_TIME, TIMER_CANCEL, Message, MessageQueue, ReceivedMessage
from ariane.remoting import RpcHook

log = logging.getLogger("ariane.client")

Callback = Callable[[SendResult | None, Exception | None], None]
"""Called with the result, or with the error."""


class Producer(Lifecycle):
    """Sends messages. Options are keywords, e.g. `Producer("orders", name_servers="127.0.0.1:9876", retries=5)`."""

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
        check_group(group)
        self._options = ProducerOptions.of(options, keywords)
        super().__init__("producer", group, self._options, env, tuple(rpc_hooks))
        self._send_hooks = tuple(send_hooks)
        self._forbid_hooks = tuple(forbid_hooks)
        self._sender_or_none: Sender | None = None
        self._packer_or_none: Packer | None = None
        self._batcher: Batcher | None = None
        self._tracer: Tracer | None = None
        self._sending: set[asyncio.Future[SendResult]] = set()
        self.room = Room(self._options.max_in_flight, self._options.max_in_flight_bytes)
        """The limit of messages in flight."""

    @property
    def options(self) -> ProducerOptions:
        """The options of this producer."""
        return self._options

    async def send(
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
        self._running()
        check_message(message, self._options)
        limit = self._options.send_timeout if timeout is None else timeout
        size = len(message.body)
        if not self.room.take(size):
            await self.room.enter(size)
        try:
            fast = queue is None and selector is None and hash_key is None
            if self._batcher is not None and may_be_batched(message):
                if fast:
                    return await self._batcher.put(message, None, limit)
                return await self._send_in_batch(message, queue, selector, hash_key, limit)
            attempt = self._sender.fast.prepare(message, limit) if fast else None
            if attempt is None:
                return await self._send(message, queue, selector, hash_key, limit)
            failure: ArianeError | None = None
            result: SendResult | None = None
            try:
                result = attempt.result(await attempt.send(self._loop))
                if self._sender.is_good(result):
                    return result
            except ArianeError as error:
                if isinstance(error, RequestTimeout):
                    attempt.close_if_silent()
                failure = error
            except asyncio.CancelledError:
                attempt.forget()
                raise
            return await self._sender.send_after(message, attempt, failure, result)
        finally:
            self.room.leave(size)

    def send_in_thread(
        self,
        run: Callable[[Coroutine[Any, Any, SendResult]], SendResult],
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        hash_key: str | int | None,
        timeout: float | None,
    ) -> SendResult:
        """Like `send`, for a thread that waits: `run` runs what a fast attempt cannot do in the loop."""
        if self._batcher is not None or queue is not None or selector is not None or hash_key is not None:
            return run(self.send(message, queue=queue, selector=selector, hash_key=hash_key, timeout=timeout))
        self._running()
        check_message(message, self._options)
        limit = self._options.send_timeout if timeout is None else timeout
        size = len(message.body)
        self.room.enter_from_thread(size, wait=True)
        try:
            attempt = self._sender.fast.prepare(message, limit)
            if attempt is None:
                return run(self._send(message, None, None, None, limit))
            failure: ArianeError | None = None
            result: SendResult | None = None
            try:
                result = attempt.result(self._sender.fast.ask(attempt))
                if self._sender.is_good(result):
                    return result
            except ArianeError as error:
                failure = error
            return run(self._sender.send_after(message, attempt, failure, result))
        finally:
            self.room.leave(size)

    async def _send(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        hash_key: str | int | None,
        limit: float,
    ) -> SendResult:
        sender = self._sender
        out = self._packer.pack(message)
        if DELIVER_TIME in out.properties:
            await sender.check_timers(out)
        if queue is None and selector is None and hash_key is None:
            return await sender.send_anywhere(out, limit)
        check_target(queue, selector, hash_key)
        started = self._env.clock.monotonic()
        chosen = await self._choose(message, queue, selector, hash_key)
        left = limit - (self._env.clock.monotonic() - started)
        return await sender.send_to(out, chosen, self._time_left(left, limit), SendMode.SYNC)

    def submit(
        self,
        message: Message,
        *,
        callback: Callback | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> asyncio.Future[SendResult]:
        """Send without waiting: returns a future, and calls `callback` when it is done.

        A request without a response is tried again on the same broker. When too many messages are in flight
        (`max_in_flight`), the message waits for room, or BufferFull is raised, as `when_full` says; a thread waits in
        this call, a coroutine at the future.
        """
        self._running()
        check_message(message, self._options)
        check_target(queue, selector, hash_key)
        size = len(message.body)
        waits = not self.room.take(size)
        if waits and self._options.when_full == "raise":
            raise self.room.full()
        sending = self._submitted(message, queue, selector, hash_key, timeout)
        if waits:
            return self._follow(self._submitted_later(sending, size), callback)
        future = self._follow(sending, callback)
        future.add_done_callback(lambda _: self.room.leave(size))
        return future

    def submit_in_room(
        self,
        message: Message,
        callback: Callback | None,
        queue: MessageQueue | None,
        selector: Selector | None,
        hash_key: str | int | None,
        timeout: float | None,
    ) -> asyncio.Future[SendResult]:
        """Like `submit`, for a caller that has reserved room and releases it when the future is done."""
        self._running()
        check_message(message, self._options)
        check_target(queue, selector, hash_key)
        return self._follow(self._submitted(message, queue, selector, hash_key, timeout), callback)

    async def _submitted_later(self, sending: Coroutine[Any, Any, SendResult], size: int) -> SendResult:
        try:
            await self.room.enter(size)
        except BaseException:
            sending.close()
            raise
        try:
            return await sending
        finally:
            self.room.leave(size)

    def _follow(
        self, sending: Coroutine[Any, Any, SendResult], callback: Callback | None
    ) -> asyncio.Future[SendResult]:
        future = asyncio.ensure_future(sending)
        self._sending.add(future)
        future.add_done_callback(self._sending.discard)
        if callback is not None:
            future.add_done_callback(_calling(callback))
        return future

    async def _submitted(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        hash_key: str | int | None,
        timeout: float | None,
    ) -> SendResult:
        started = self._env.clock.monotonic()
        limit = self._options.send_timeout if timeout is None else timeout
        if self._batcher is not None and may_be_batched(message):
            return await self._send_in_batch(message, queue, selector, hash_key, limit)
        out = self._packer.pack(message)
        if DELIVER_TIME in out.properties:
            await self._sender.check_timers(out)
        chosen = await self._choose(message, queue, selector, hash_key)
        left = self._time_left(limit - (self._env.clock.monotonic() - started), limit)
        if queue is None and selector is None and hash_key is None:
            return await self._sender.send_again(out, chosen, left)
        return await self._sender.send_to(out, chosen, left, SendMode.ASYNC)

    async def _send_in_batch(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        hash_key: str | int | None,
        timeout: float,
    ) -> SendResult:
        assert self._batcher is not None
        check_target(queue, selector, hash_key)
        if selector is not None or hash_key is not None:
            queue = await self._choose(message, queue, selector, hash_key)
        return await self._batcher.put(message, queue, timeout)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
    ) -> None:
        """Send without a response: fast, and without knowing whether the message was stored."""
        self._running()
        check_message(message, self._options)
        check_target(queue, selector, hash_key)
        out = self._packer.pack(message)
        if DELIVER_TIME in out.properties:
            await self._sender.check_timers(out)
        await self._sender.send_oneway(out, await self._choose(message, queue, selector, hash_key))

    async def cancel(self, message: Message, result: SendResult, *, timeout: float | None = None) -> None:
        """Cancel the delivery of a message that was sent with `deliver_at` and is not due yet; `result` is its result.

        BrokerRefused when it was already due. RocketMQ's brokers cancel from 5.1 on.
        """
        if message.deliver_at is None:
            raise InvalidMessage("only a message with deliver_at can be cancelled")
        stop = Message(message.topic, b"-", deliver_at=message.deliver_at)
        stop.properties[TIMER_CANCEL] = result.message_id
        await self.send(stop, queue=result.queue, timeout=timeout)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]:
        """Send messages of one topic together, in as few requests as the size limit allows; returns a result for each.

        When a part fails, the error's `sent` has the results of the parts before it.
        """
        self._running()
        check_batch(messages, self._options)
        limit = self._options.send_timeout if timeout is None else timeout
        results: list[SendResult] = []
        for out in self._packer.pack_batches(messages):
            try:
                results.append(await self._send_part(out, queue, limit))
            except ArianeError as error:
                if not results:
                    raise
                raise SendError(
                    f"{len(results)} parts of the batch were stored, then: {error}", (error,), tuple(results)
                ) from error
        return results

    async def _send_part(self, out: Outgoing, queue: MessageQueue | None, timeout: float) -> SendResult:
        if queue is None:
            return await self._sender.send_anywhere(out, timeout)
        return await self._sender.send_to(out, queue, timeout, SendMode.SYNC)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> ReceivedMessage:
        """Send a request and wait for the reply of a consumer; ReplyTimeout without one."""
        instance = self._running()
        limit = self._options.send_timeout if timeout is None else timeout
        started = self._env.clock.monotonic()
        correlation_id = f"{self._env.random.getrandbits(128):032x}"
        request = as_request(message, correlation_id, instance.client_id, limit)
        check_message(request, self._options)
        check_target(queue, selector, hash_key)
        chosen = await self._choose(request, queue, selector, hash_key)
        await instance.register(await instance.calls.master(chosen), self._group)
        reply = instance.replies.expect(correlation_id)
        try:
            await self._sender.send_to(self._packer.pack(request), chosen, limit, SendMode.ASYNC)
            async with asyncio.timeout(max(0.0, limit - (self._env.clock.monotonic() - started))):
                return await reply
        except ReplyTimeout:
            raise
        except TimeoutError:
            raise ReplyTimeout(
                f"the request to {message.topic} was stored, but no consumer replied in {limit:g} s: is one running?"
            ) from None
        finally:
            instance.replies.forget(correlation_id)

    async def reply(self, request: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult:
        """Reply to a request that a consumer received."""
        return await self.send(reply_to(request, body), timeout=timeout)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written to."""
        self._running()
        return list((await self._sender.route(topic)).write_queues)

    async def _choose(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, hash_key: str | int | None
    ) -> MessageQueue:
        if queue is not None:
            if queue.topic not in (message.topic, wrap(self._options.namespace, message.topic)):
                raise InvalidMessage(f"{queue} is not a queue of topic {message.topic}: choose one of `queues(topic)`")
            return queue
        route = await self._sender.route(message.topic)
        if hash_key is not None:
            selector = by_hash(hash_key)
        if selector is None:
            return self._sender.chooser.choose(route, None)
        chosen = selector(route.write_queues, message)
        if not isinstance(chosen, MessageQueue):
            raise InvalidMessage(f"the selector returned {chosen!r}: it must return one of the queues it is given")
        return chosen

    def _time_left(self, left: float, limit: float) -> float:
        if left <= 0:
            raise RequestTimeout(f"the time-out of {limit:g} s was up before the message could be sent")
        return left

    @property
    def _sender(self) -> Sender:
        assert self._sender_or_none is not None
        return self._sender_or_none

    @property
    def _packer(self) -> Packer:
        assert self._packer_or_none is not None
        return self._packer_or_none

    async def _open(self, instance: Instance) -> None:
        self._loop = asyncio.get_running_loop()
        self._packer_or_none = Packer(self._options, instance.ids, self._env.clock)
        self._sender_or_none = Sender(instance, self._group, self._options, self._packer)
        hooks = with_telemetry(self._send_hooks)
        if self._options.trace:
            self._tracer = start_tracer(instance, self._options, self._options.trace_topic)
            hooks = (*hooks, self._tracer)
        self._sender.watch(hooks, self._forbid_hooks)
        if self._options.batching:
            self._batcher = Batcher(self._sender, self._packer, self._options, instance.tasks.spawn)
        instance.producers[self._group] = self

    async def _shut(self, instance: Instance) -> None:
        if self._batcher is not None:
            self._batcher.close()
        if self._sending:
            await self._finish(list(self._sending))
        self._sender.close()
        if self._tracer is not None:
            await self._tracer.close()
        instance.producers.pop(self._group, None)
        await instance.unregister(producer_group=self._group)

    async def _finish(self, sending: list[asyncio.Future[SendResult]]) -> None:
        """Wait for submitted messages, cancel those that take too long, and log the failed ones in one warning."""
        done, late = await asyncio.wait(sending, timeout=self._options.send_timeout)
        for future in late:
            future.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        errors = [error for future in done if not future.cancelled() and (error := future.exception()) is not None]
        if late or errors:
            why = errors[-1] if errors else f"no answer within {self._options.send_timeout:g} s"
            log.warning("%s: %d submitted messages failed at close: %s", self._group, len(late) + len(errors), why)


def _calling(callback: Callback) -> Callable[[asyncio.Future[SendResult]], None]:
    def done(future: asyncio.Future[SendResult]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Exception):
            callback(None, error)
        elif error is None:
            callback(future.result(), None)

    return done
