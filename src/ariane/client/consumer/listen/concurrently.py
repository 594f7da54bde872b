"""Concurrent consuming: messages of a queue go to the listener side by side, and failures go back one by one."""

import logging
from dataclasses import replace

from ariane.client.connect.instance import Instance
from ariane.client.consumer.listen.listener import ConsumeStatus, Delivery
from ariane.client.consumer.listen.runners import Batch, Runner
from ariane.client.consumer.listen.send_back import SendBack
from ariane.client.consumer.options import Model, PushOptions
from ariane.client.consumer.queues.offset_store import OffsetStore
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.consumer.stats import Meter
from ariane.message import ReceivedMessage

log = logging.getLogger("ariane.client")

RETRY_HERE = 5.0  # seconds until a message that could not be sent back is tried again here
EXPIRED_LEVEL = 3  # the delay level of messages that a listener held too long


class Concurrently:
    """Feeds a runner with batches and settles their answers."""

    def __init__(
        self,
        instance: Instance,
        options: PushOptions,
        runner: Runner,
        offsets: OffsetStore,
        back: SendBack,
        meter: Meter,
    ) -> None:
        self._instance = instance
        self._clock = instance.env.clock
        self._options = options
        self._runner = runner
        self._offsets = offsets
        self._back = back
        self._meter = meter
        self._under_way: set[Batch] = set()

    def deliver(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Messages came."""
        size = self._options.consume_batch
        for at in range(0, len(messages), size):
            batch = Batch(queue, messages[at : at + size], Delivery(queue.queue), self._done)
            self._under_way.add(batch)
            queue.running += len(batch.messages)
            self._runner.submit(batch)

    def _done(self, batch: Batch) -> None:
        """A listener has answered, or the batch was passed over."""
        self._under_way.discard(batch)
        batch.queue.running -= len(batch.messages)
        if batch.started is None or batch.queue.abandoned:
            batch.queue.changed.set()
            return
        good, bad = self._judge(batch)
        self._meter.consumed(batch.queue.queue.topic, len(good), len(bad), batch.wall, batch.cpu)
        if bad and self._options.model is Model.CLUSTERING:
            self._instance.tasks.spawn(self._fail(batch, good, bad))
            return
        if bad:
            log.warning("%d messages of %s failed, and broadcasting has no retries", len(bad), batch.queue.queue)
        self._finish(batch.queue, batch.messages)

    def _judge(self, batch: Batch) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
        messages = [message for message in batch.messages if batch.queue.holds(message)]  # the others expired
        if batch.error is not None:
            log.warning(
                "a listener failed with messages of %s; they will come again", batch.queue.queue, exc_info=batch.error
            )
        elif batch.status is None:
            log.warning("a listener returned None for messages of %s, which means: again, later", batch.queue.queue)
        if batch.status is not ConsumeStatus.CONSUME_SUCCESS:
            return [], messages
        until = max(0, batch.delivery.ack_index + 1)
        return messages[:until], messages[until:]

    async def _fail(self, batch: Batch, good: list[ReceivedMessage], bad: list[ReceivedMessage]) -> None:
        queue = batch.queue
        queue.running += len(bad)
        stay: list[ReceivedMessage] = []
        for message in bad:
            if await self._back.send(message, batch.delivery.delay_level):
                good.append(message)
            else:
                stay.append(replace(message, reconsume_times=message.reconsume_times + 1))
        queue.running -= len(bad)
        if good:
            self._finish(queue, good)
        if stay:
            await self._clock.sleep(RETRY_HERE)
            if not queue.dropped:
                self.deliver(queue, stay)

    def _finish(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        offset = queue.remove(messages)
        if offset is not None and not queue.abandoned:
            self._offsets.update(queue.queue, offset, only_forward=True)

    async def expire(self) -> None:
        """Send back what a listener has held for too long, so that it does not hold up the group's offset."""
        if self._options.model is Model.BROADCASTING:
            return
        oldest = self._clock.monotonic() - self._options.consume_timeout
        for batch in [b for b in self._under_way if b.started is not None and b.started < oldest]:
            for message in batch.messages:
                if batch.queue.holds(message) and await self._back.send(message, EXPIRED_LEVEL):
                    log.warning(
                        "message %s was held for over %g s and is sent back",
                        message.message_id,
                        self._options.consume_timeout,
                    )
                    self._finish(batch.queue, [message])

    async def close(self) -> None:
        """Wait for listeners at work."""
        await self._runner.close(self._options.close_timeout)
