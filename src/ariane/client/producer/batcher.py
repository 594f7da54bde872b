"""Automatic batching: messages submitted within a few milliseconds are sent as one request.

Each caller gets the result or the error of its own message. Messages for one queue stay in order: they share a batch,
or are in batches sent one after the other on one connection.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ariane.client.observe.hooks import SendMode
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.outgoing import BatchBuilder, Outgoing, Packer, stored_size
from ariane.client.producer.sending import Sender
from ariane.client.results import SendResult
from ariane.errors import BrokerRefused, NotRunning
from ariane.message import (
    DELAY,
    DELIVER_TIME,
    MESSAGE_TYPE,
    RETRY_PREFIX,
    TRANSACTION_PREPARED,
    WAIT,
    Message,
    MessageQueue,
)

_ALONE = frozenset({DELAY, DELIVER_TIME, TRANSACTION_PREPARED, MESSAGE_TYPE})  # properties that no batch may have

Key = tuple[str, MessageQueue | None, str | None]
"""What the messages of a batch have in common: topic, chosen queue, WAIT."""


def may_be_batched(message: Message) -> bool:
    """Whether RocketMQ allows a message in a batch."""
    properties = message.properties
    return (not properties or _ALONE.isdisjoint(properties)) and not message.topic.startswith(RETRY_PREFIX)


class _Batch:
    def __init__(self) -> None:
        self.built = BatchBuilder()
        self.messages: list[Message] = []
        self.results: list[asyncio.Future[SendResult]] = []
        self.timeout = 0.0
        self.timer: asyncio.TimerHandle | None = None

    def forget(self) -> None:
        """Release what the callers have their results of.

        Called before they run, so that each frees its own message and future before it makes the next ones. Freed all
        at once, they would start the garbage collector for every batch.
        """
        self.messages.clear()
        self.results.clear()


class Batcher:
    """Gathers the messages of one producer. Use it from the event loop's thread alone."""

    def __init__(
        self,
        sender: Sender,
        packer: Packer,
        options: ProducerOptions,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._sender = sender
        self._packer = packer
        self._delay = options.batch_delay
        self._most = options.batch_bytes
        self._spawn = spawn
        self._open: dict[Key, _Batch] = {}
        self._last: dict[Key, asyncio.Task[None]] = {}  # of each chosen queue, the batch that was sent last
        self._loop = asyncio.get_running_loop()

    def put(self, message: Message, queue: MessageQueue | None, timeout: float) -> asyncio.Future[SendResult]:
        """Send a message in a batch, or alone if no other is submitted in time; the future is its own result."""
        message_id, item = self._packer.item(message)  # an invalid message is an error for its own caller only
        key = (message.topic, queue, message.properties.get(WAIT))
        size = stored_size(message, item)
        batch = self._open.get(key)
        if batch is not None and batch.built.size + size > self._most:
            self._close(key)
            batch = None
        if batch is None:
            batch = self._open[key] = _Batch()
            batch.timer = self._loop.call_later(self._delay, self._close, key)
        result: asyncio.Future[SendResult] = self._loop.create_future()
        batch.built.add(message_id, item, size)
        batch.messages.append(message)
        batch.results.append(result)
        if timeout > batch.timeout:
            batch.timeout = timeout
        return result

    def close(self) -> None:
        """Send what is gathered now."""
        for key in list(self._open):
            self._close(key)

    def _close(self, key: Key) -> None:
        batch = self._open.pop(key)
        if batch.timer is not None:
            batch.timer.cancel()
        try:
            task = self._spawn(self._leave(key, batch, self._last.get(key)))
        except NotRunning:
            _closed(batch)
            return
        if key[1] is not None:
            self._last[key] = task

        def done(_: object) -> None:
            _closed(batch)  # also when it was cancelled before it began
            if self._last.get(key) is task:
                del self._last[key]

        task.add_done_callback(done)

    async def _leave(self, key: Key, batch: _Batch, before: asyncio.Task[None] | None) -> None:
        if before is not None:  # to a chosen queue in order: neither a new connection nor an error lets one overtake
            await asyncio.wait({before})
        results = batch.results
        try:
            if any(result.done() for result in results):  # callers that were cancelled: build it without them
                self._drop_cancelled(batch)
                results = batch.results
            if not results:
                return
            if len(results) == 1:
                results[0].set_result(await self._alone(batch, 0, key[1]))
                return
            out = self._packer.pack_batch(batch.messages[0], batch.built)
            try:
                stored = await self._send(out, key[1], batch.timeout)
            except BrokerRefused:  # perhaps caused by a single message: send each by itself
                await asyncio.gather(*(self._one(batch, number, key[1]) for number in range(len(results))))
                return
            for result, one in zip(results, _each(stored), strict=True):
                if not result.done():
                    result.set_result(one)
            batch.forget()
        except Exception as error:
            _fail(results, error)

    def _drop_cancelled(self, batch: _Batch) -> None:
        kept = [number for number, result in enumerate(batch.results) if not result.done()]
        built, batch.built = batch.built, BatchBuilder()
        for number in kept:
            message, item = batch.messages[number], built.items[number]
            batch.built.add(built.ids[number], item, stored_size(message, item))
        batch.messages = [batch.messages[number] for number in kept]
        batch.results = [batch.results[number] for number in kept]

    async def _one(self, batch: _Batch, number: int, queue: MessageQueue | None) -> None:
        result = batch.results[number]
        try:
            stored = await self._alone(batch, number, queue)
        except Exception as error:
            _fail([result], error)
        else:
            if not result.done():
                result.set_result(stored)

    async def _alone(self, batch: _Batch, number: int, queue: MessageQueue | None) -> SendResult:
        out = self._packer.pack(batch.messages[number], batch.built.ids[number])
        return await self._send(out, queue, batch.timeout)

    async def _send(self, out: Outgoing, queue: MessageQueue | None, timeout: float) -> SendResult:
        if queue is None:
            return await self._sender.send_anywhere(out, timeout)
        return await self._sender.send_to(out, queue, timeout, SendMode.SYNC)


def _each(stored: SendResult) -> list[SendResult]:
    """The result of each message of a batch."""
    ids, offset = stored.message_ids, stored.queue_offset
    places = stored.offset_id.split(",")
    if len(places) != len(ids):
        places = [stored.offset_id] * len(ids)
    status, queue, transaction = stored.status, stored.queue, stored.transaction_id
    region, trace = stored.region, stored.trace_on
    return [
        SendResult(status, message_id, queue, offset + i, places[i], transaction, region, trace)
        for i, message_id in enumerate(ids)
    ]


def _closed(batch: _Batch) -> None:
    """Fail the callers that still wait: the producer was closed."""
    _fail(batch.results, NotRunning("the producer was closed before the message was stored"))


def _fail(results: list[asyncio.Future[SendResult]], error: Exception) -> None:
    for result in results:
        if not result.done():
            result.set_exception(error)
