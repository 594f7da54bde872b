"""The offset at which a consumer starts with a queue."""

from ariane.client.connect.broker_calls import BrokerCalls
from ariane.client.consumer.options import ConsumeFrom, ConsumerOptions
from ariane.client.consumer.queues.offset_store import OffsetStore
from ariane.message import RETRY_PREFIX, MessageQueue

HALF_AN_HOUR = 1_800_000  # milliseconds: the default of consume_timestamp, back from now


async def start_offset(
    calls: BrokerCalls, options: ConsumerOptions, offsets: OffsetStore, queue: MessageQueue, now_ms: int
) -> int:
    """The committed offset; without one, what `consume_from` says."""
    stored = await offsets.read(queue)
    if stored is not None:
        return stored
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if options.consume_from is ConsumeFrom.FIRST:
        return 0
    if options.consume_from is ConsumeFrom.LAST:
        return 0 if is_retry else await calls.max_offset(queue)
    if is_retry:
        return await calls.max_offset(queue)
    moment = options.consume_timestamp
    return await calls.search_offset(queue, now_ms - HALF_AN_HOUR if moment is None else int(moment.timestamp() * 1000))
