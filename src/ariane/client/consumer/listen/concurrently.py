"""Concurrent consumption: the listener gets messages of a queue in parallel, and failed ones go back to the broker."""

import logging
from dataclasses import replace

from ariane.client.connect.instance import Instance
from ariane.client.consumer.listen.listener import ConsumeStatus
from ariane.client.consumer.listen.runners import Batch, Runner
from ariane.client.consumer.listen.send_back import SendBack
from ariane.client.consumer.options import Model, PushOptions
from ariane.client.consumer.queues.offset_store import OffsetStore
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.consumer.stats import Meter
from ariane.message import ReceivedMessage

log = logging.getLogger("ariane.client")

RETRY_HERE = 5.0  # seconds until a message that could not be sent back is tried again here
EXPIRED_LEVEL = 3  # the delay level of messages whose listener call took too long


class Concurrently:
    """Submits batches to a runner and handles their results."""

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
        """Submit messages that were pulled."""
        size, done = self._options.consume_batch, self._done
        for at in range(0, len(messages), size):
            batch = Batch(queue, messages[at : at + size], done)
            self._under_way.add(batch)
            queue.running += len(batch.messages)
            self._runner.submit(batch)

    def _done(self, batch: Batch) -> None:
        """Handle the result of a listener call; a batch of a dropped queue has none."""
        self._under_way.discard(batch)
        batch.queue.running -= len(batch.messages)
        if batch.started is None or batch.queue.abandoned:
            batch.queue.changed.set()
            return
        if (
            batch.status is ConsumeStatus.CONSUME_SUCCESS
            and batch.error is None
            and not batch.expired
            and batch.acknowledged >= len(batch.messages)
        ):
            self._meter.consumed(batch.queue.queue.topic, len(batch.messages), 0, batch.wall, batch.cpu)
            self._finish(batch.queue, batch.messages)
            return
        good, bad = self._judge(batch)
        self._meter.consumed(batch.queue.queue.topic, len(good), len(bad), batch.wall, batch.cpu)
        if bad and self._options.model is Model.CLUSTERING:
            self._instance.tasks.spawn(self._fail(batch, good, bad))
            return
        if bad:
            log.warning(
                "%d messages of %s failed and are skipped: broadcasting has no retries", len(bad), batch.queue.queue
            )
        self._finish(batch.queue, batch.messages)

    def _judge(self, batch: Batch) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
        messages = [message for message in batch.messages if batch.queue.holds(message)]  # the others expired
        if batch.error is not None:
            log.warning(
                "a listener failed with messages of %s; they will be delivered again",
                batch.queue.queue,
                exc_info=batch.error,
            )
        elif batch.status is None:
            log.warning(
                "a listener returned None for messages of %s: they will be delivered again (return a ConsumeStatus)",
                batch.queue.queue,
            )
        if batch.status is not ConsumeStatus.CONSUME_SUCCESS:
            return [], messages
        until = batch.acknowledged
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
        """Send back messages whose listener call exceeds consume_timeout, so that the group's offset can advance."""
        if self._options.model is Model.BROADCASTING:
            return
        oldest = self._clock.monotonic() - self._options.consume_timeout
        for batch in [b for b in self._under_way if b.started is not None and b.started < oldest]:
            for message in batch.messages:
                if batch.queue.holds(message) and await self._back.send(message, EXPIRED_LEVEL):
                    log.warning(
                        "message %s is sent back: its listener call took over %g s (raise consume_timeout?)",
                        message.message_id,
                        self._options.consume_timeout,
                    )
                    batch.expired = True
                    self._finish(batch.queue, [message])

    async def close(self) -> None:
        """Wait for running listener calls."""
        await self._runner.close(self._options.close_timeout)
