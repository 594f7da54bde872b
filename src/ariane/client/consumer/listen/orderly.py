"""Orderly consumption: the messages of a queue one after the other, under a lock at the broker."""

import asyncio
import logging

from ariane.client.connect.instance import Instance
from ariane.client.consumer.listen.listener import ConsumeStatus
from ariane.client.consumer.listen.runners import Batch, Runner
from ariane.client.consumer.listen.send_back import NO_LIMIT, SendBack
from ariane.client.consumer.options import Model, PushOptions
from ariane.client.consumer.queues.offset_store import OffsetStore
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.consumer.stats import Meter
from ariane.errors import ArianeError
from ariane.message import RECONSUME_TIME, ReceivedMessage

log = logging.getLogger("ariane.client")

LOCK_INTERVAL = 20.0
SUSPEND_LEAST, SUSPEND_MOST = 0.01, 30.0
RELOCK_PAUSE = 0.1


class Locks:
    """Queue locks at brokers: only the owner of a lock consumes the queue."""

    def __init__(self, group: str, instance: Instance) -> None:
        self._group = group
        self._instance = instance

    async def lock(self, queues: list[ProcessQueue]) -> None:
        """Acquire or renew locks, and note in each queue whether it is locked."""
        for address, mine in self._by_broker(queues).items():
            try:
                held = await self._instance.calls.lock(
                    address, self._group, self._instance.client_id, [queue.queue for queue in mine]
                )
            except ArianeError as error:
                log.warning("%s: cannot lock queues at %s: %s", self._group, address, error)
                continue
            for queue in mine:
                queue.note_lock(queue.queue in held)

    async def unlock(self, queues: list[ProcessQueue]) -> None:
        """Release locks."""
        for address, mine in self._by_broker(queues).items():
            try:
                await self._instance.calls.unlock(
                    address, self._group, self._instance.client_id, [queue.queue for queue in mine], wait=True
                )
            except ArianeError as error:  # the broker releases them after a minute
                log.warning("%s: cannot unlock queues at %s: %s", self._group, address, error)
            for queue in mine:
                queue.note_lock(False)

    def _by_broker(self, queues: list[ProcessQueue]) -> dict[str, list[ProcessQueue]]:
        found: dict[str, list[ProcessQueue]] = {}
        for queue in queues:
            address = self._instance.routes.master(queue.queue.broker_name)
            if address is not None:
                found.setdefault(address, []).append(queue)
        return found


class Orderly:
    """Runs a task for each queue that submits its messages in order."""

    def __init__(
        self,
        instance: Instance,
        options: PushOptions,
        runner: Runner,
        offsets: OffsetStore,
        back: SendBack,
        meter: Meter,
        locks: Locks,
    ) -> None:
        self._instance = instance
        self._clock = instance.env.clock
        self._options = options
        self._runner = runner
        self._offsets = offsets
        self._back = back
        self._meter = meter
        self._locks = locks
        self._tasks: dict[ProcessQueue, asyncio.Task[None]] = {}

    def deliver(self, queue: ProcessQueue, _: list[ReceivedMessage]) -> None:
        """Start the task of a queue to which messages were added."""
        task = self._tasks.get(queue)
        if task is None or task.done():
            self._tasks = {held: task for held, task in self._tasks.items() if not task.done()}
            self._tasks[queue] = self._instance.tasks.supervise(
                f"consuming of {queue.queue}", lambda: self._consume(queue)
            )

    async def _consume(self, queue: ProcessQueue) -> None:
        while not queue.dropped:
            if not self._may_consume(queue):
                await self._clock.sleep(RELOCK_PAUSE)
                if not queue.dropped:
                    await self._locks.lock([queue])
                continue
            messages = queue.take(self._options.consume_batch)
            if not messages:
                return
            pause = await self._hand_over(queue, messages)
            if pause > 0:
                await self._clock.sleep(pause)

    def _may_consume(self, queue: ProcessQueue) -> bool:
        return self._options.model is Model.BROADCASTING or queue.lock_holds()

    async def _hand_over(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> float:
        """Call the listener and handle its result; returns the seconds to pause."""
        finished: asyncio.Future[Batch] = asyncio.get_running_loop().create_future()
        batch = Batch(queue, messages, finished.set_result)
        queue.running += len(messages)
        self._runner.submit(batch)
        try:
            await finished
        finally:
            queue.running -= len(messages)
            queue.changed.set()
        if batch.started is None or queue.abandoned:
            return 0.0
        return await self._settle(batch)

    async def _settle(self, batch: Batch) -> float:
        queue, status = batch.queue, batch.status
        if batch.error is not None:
            log.warning(
                "a listener failed with messages of %s; the queue pauses, then they are delivered again",
                queue.queue,
                exc_info=batch.error,
            )
        elif status is None:
            log.warning(
                "a listener returned None for messages of %s: they will be delivered again (return a ConsumeStatus)",
                queue.queue,
            )
        good = status in (ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.COMMIT)
        count = len(batch.messages)
        self._meter.consumed(queue.queue.topic, count if good else 0, 0 if good else count, batch.wall, batch.cpu)
        if status is ConsumeStatus.ROLLBACK and not batch.delivery.auto_commit:
            queue.put_back()
            return self._pause(batch)
        if good or status is ConsumeStatus.ROLLBACK:
            if batch.delivery.auto_commit or status is ConsumeStatus.COMMIT:
                self._commit(queue)
            return 0.0
        if await self._try_again(batch.messages):
            queue.put_back(batch.messages)
            return self._pause(batch)
        if batch.delivery.auto_commit:
            self._commit(queue)
        return 0.0

    def _commit(self, queue: ProcessQueue) -> None:
        offset = queue.commit()
        if offset is not None and not queue.abandoned:
            self._offsets.update(queue.queue, offset, only_forward=False)

    def _pause(self, batch: Batch) -> float:
        wanted = self._options.suspend if batch.delivery.suspend is None else batch.delivery.suspend
        return min(max(wanted, SUSPEND_LEAST), SUSPEND_MOST)

    async def _try_again(self, messages: list[ReceivedMessage]) -> bool:
        """Whether a message must be delivered again; those over the limit become dead letters."""
        most = NO_LIMIT if self._options.max_reconsume_times < 0 else self._options.max_reconsume_times
        again = False
        for message in messages:
            if message.reconsume_times >= most:
                message.properties[RECONSUME_TIME] = str(message.reconsume_times)
                if await self._back.send_copy(message, message.reconsume_times):
                    continue
            message.reconsume_times += 1
            again = True
        return again

    async def close(self) -> None:
        """Wait for running listener calls."""
        await self._runner.close(self._options.close_timeout)
