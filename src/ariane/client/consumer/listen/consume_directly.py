"""A listener call that an administrator asks for, outside of any queue."""

import asyncio

from ariane.client.connect.namespaces import unwrap
from ariane.client.consumer.listen.listener import ConsumeStatus
from ariane.client.consumer.listen.runners import Batch, Runner
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.env import Clock
from ariane.message import RETRY_TOPIC, ReceivedMessage, retry_topic
from ariane.protocol.bodies import ConsumeMessageDirectlyResult

_WORDS = {
    ConsumeStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeStatus.RECONSUME_LATER: "CR_LATER",
    ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: "CR_LATER",
    ConsumeStatus.COMMIT: "CR_COMMIT",
    ConsumeStatus.ROLLBACK: "CR_ROLLBACK",
}


async def consume_directly(
    group: str, namespace: str, runner: Runner, message: ReceivedMessage, clock: Clock, *, orderly: bool
) -> ConsumeMessageDirectlyResult:
    """Call the listener and return its result."""
    if message.topic == retry_topic(group):
        message.topic = message.properties.get(RETRY_TOPIC, message.topic)
    message.topic = unwrap(namespace, message.topic)
    finished: asyncio.Future[Batch] = asyncio.get_running_loop().create_future()
    queue = ProcessQueue(message.queue, clock)
    batch = Batch(queue, [message], finished.set_result, watched=False)
    runner.submit(batch)
    await finished
    return ConsumeMessageDirectlyResult(
        orderly, batch.delivery.auto_commit, _word(batch), _remark(batch), int(batch.wall * 1000)
    )


def _word(batch: Batch) -> str:
    if batch.error is not None:
        return "CR_THROW_EXCEPTION"
    return "CR_RETURN_NULL" if batch.status is None else _WORDS[batch.status]


def _remark(batch: Batch) -> str | None:
    return None if batch.error is None else f"{type(batch.error).__name__}: {batch.error}"
