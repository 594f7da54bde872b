"""Automatic batching: messages submitted within a few milliseconds are sent as one request.

Each caller gets the result or the error of its own message. Messages for one queue stay in order: they share a batch,
or are in batches sent one after the other on one connection.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ariane.client.observe.hooks import SendMode
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.outgoing import ITEM_OVERHEAD, Packer, checked_properties
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
    return _ALONE.isdisjoint(message.properties) and not message.topic.startswith(RETRY_PREFIX)


class _Batch:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.results: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.timeout = 0.0
        self.timer: asyncio.TimerHandle | None = None


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
        self._options = options
        self._spawn = spawn
        self._open: dict[Key, _Batch] = {}
        self._last: dict[Key, asyncio.Task[None]] = {}  # of each chosen queue, the batch that was sent last
        self._loop = asyncio.get_running_loop()

    async def send(self, message: Message, queue: MessageQueue | None, timeout: float) -> SendResult:
        """Send a message in a batch, or alone if no other is submitted in time."""
        properties = checked_properties(message.properties)  # an invalid message is an error for its own caller only
        size = len(message.body) + len(properties) + len(message.topic) + ITEM_OVERHEAD
        key = (message.topic, queue, message.properties.get(WAIT))
        batch = self._open.get(key)
        if batch is not None and batch.size + size > self._options.batch_bytes:
            self._close(key)
            batch = None
        if batch is None:
            batch = self._open[key] = _Batch()
            batch.timer = self._loop.call_later(self._options.batch_delay, self._close, key)
        result: asyncio.Future[SendResult] = self._loop.create_future()
        batch.messages.append(message)
        batch.results.append(result)
        batch.size += size
        batch.timeout = max(batch.timeout, timeout)
        return await result

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
        wanted = [i for i, result in enumerate(batch.results) if not result.done()]  # skip cancelled callers
        messages = [batch.messages[i] for i in wanted]
        results = [batch.results[i] for i in wanted]
        if not messages:
            return
        try:
            if len(messages) == 1:
                results[0].set_result(await self._alone(messages[0], key[1], batch.timeout))
                return
            try:
                found = await self._together(messages, key[1], batch.timeout)
            except BrokerRefused:  # perhaps caused by a single message: send each by itself
                pairs = zip(messages, results, strict=True)
                await asyncio.gather(*(self._one(message, key[1], batch.timeout, result) for message, result in pairs))
                return
            for result, stored in zip(results, found, strict=True):
                if not result.done():
                    result.set_result(stored)
        except Exception as error:
            _fail(results, error)

    async def _one(
        self, message: Message, queue: MessageQueue | None, timeout: float, result: asyncio.Future[SendResult]
    ) -> None:
        try:
            stored = await self._alone(message, queue, timeout)
        except Exception as error:
            _fail([result], error)
        else:
            if not result.done():
                result.set_result(stored)

    async def _alone(self, message: Message, queue: MessageQueue | None, timeout: float) -> SendResult:
        out = self._packer.pack(message)
        if queue is None:
            return await self._sender.send_anywhere(out, timeout)
        return await self._sender.send_to(out, queue, timeout, SendMode.SYNC)

    async def _together(self, messages: list[Message], queue: MessageQueue | None, timeout: float) -> list[SendResult]:
        found: list[SendResult] = []
        for out in self._packer.pack_batches(messages):
            if queue is None:
                stored = await self._sender.send_anywhere(out, timeout)
            else:
                stored = await self._sender.send_to(out, queue, timeout, SendMode.SYNC)
            found += _each(stored)
        return found


def _each(stored: SendResult) -> list[SendResult]:
    """The result of each message of a batch."""
    places = stored.offset_id.split(",")
    return [
        SendResult(
            stored.status,
            message_id,
            stored.queue,
            stored.queue_offset + i,
            places[i] if len(places) == len(stored.message_ids) else stored.offset_id,
            stored.transaction_id,
            stored.region,
            stored.trace_on,
            (message_id,),
        )
        for i, message_id in enumerate(stored.message_ids)
    ]


def _closed(batch: _Batch) -> None:
    """Fail the callers that still wait: the producer was closed."""
    _fail(batch.results, NotRunning("the producer was closed before the message was stored"))


def _fail(results: list[asyncio.Future[SendResult]], error: Exception) -> None:
    for result in results:
        if not result.done():
            result.set_exception(error)
