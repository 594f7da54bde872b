"""Messages: find, read, follow to their consumers, send again."""

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ariane.client.admin.offsets import OffsetAdmin
from ariane.client.admin.requests import FOREVER
from ariane.client.decoding import decode_message, decode_messages
from ariane.client.results import PullResult, SendResult
from ariane.errors import ArianeError, ClientError, ResponseError
from ariane.message import (
    CLUSTER,
    CONSUME_START_TIME,
    DELAY,
    MAX_OFFSET,
    MAX_RECONSUME_TIMES,
    MIN_OFFSET,
    ORIGIN_MESSAGE_ID,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RECONSUME_TIME,
    RETRY_TOPIC,
    TRACE_TOPIC,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQUE_KEY,
    UNIQUE_KEY_QUERY,
    WAIT,
    Message,
    MessageQueue,
    ReceivedMessage,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import QueryMessageRequest, ViewMessageRequest
from ariane.protocol.ids import host_text, parse_offset_id
from ariane.protocol.units import decode_unit

if TYPE_CHECKING:
    from ariane.client.producer.producer import Producer

TOOLS_GROUP = "TOOLS_CONSUMER"  # a group that every broker creates
OF_A_DELIVERY = frozenset(
    {
        CLUSTER, CONSUME_START_TIME, DELAY, MAX_OFFSET, MAX_RECONSUME_TIMES, MIN_OFFSET, ORIGIN_MESSAGE_ID,
        REAL_QUEUE_ID, REAL_TOPIC, RECONSUME_TIME, RETRY_TOPIC, TRANSACTION_CHECK_TIMES, TRANSACTION_PREPARED,
        TRANSACTION_PREPARED_QUEUE_OFFSET, WAIT,
    }
)  # fmt: skip
"""Properties that describe one delivery; they are removed from a message that is sent again."""


class TrackState(Enum):
    """What became of a message in a group."""

    CONSUMED = "consumed"
    CONSUMED_BUT_FILTERED = "passed over: its tag is not subscribed"
    PULL = "not known: the group pulls and keeps its own offsets"
    NOT_CONSUME_YET = "waits"
    NOT_ONLINE = "no consumer of the group is online"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class MessageTrack:
    """What became of a message in a group."""

    group: str
    state: TrackState
    error: str | None = None
    code: int | None = None


@dataclass(frozen=True)
class TraceRecord:
    """One event of a message's trace: sent (`Pub`) or consumed (`SubAfter`)."""

    kind: str
    group: str
    client_host: str
    time: int
    cost_ms: int
    success: bool
    message_id: str
    topic: str = ""
    keys: str = ""


class MessageAdmin(OffsetAdmin):
    """Finds messages."""

    async def view_message(self, offset_id: str) -> ReceivedMessage:
        """A message by its offset id (assigned by the broker)."""
        host, offset = parse_offset_id(offset_id)
        response = await self._running().wire.ask(
            host_text(host), RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset)
        )
        return decode_message(decode_unit(response.body), "")

    async def query_messages(
        self, topic: str, key: str, *, count: int = 64, begin: int = 0, end: int = FOREVER
    ) -> list[ReceivedMessage]:
        """Messages with a key, stored between two times in milliseconds."""
        found = await self._query(topic, key, count, begin, end, unique=False)
        return [message for message in found if key in message.keys]

    async def find_message(self, topic: str, message_id: str) -> ReceivedMessage | None:
        """A message by its unique id (assigned by the producer); None when no index has it."""
        return next(iter(await self.find_messages(topic, message_id)), None)

    async def find_messages(self, topic: str, message_id: str) -> list[ReceivedMessage]:
        """All messages with a unique id, oldest first; more than one when it was sent again."""
        found = await self._query(topic, message_id, 32, 0, FOREVER, unique=True)
        exact = [message for message in found if message.properties.get(UNIQUE_KEY) == message_id]
        return sorted(exact, key=lambda message: message.store_time)

    async def _query(
        self, topic: str, key: str, count: int, begin: int, end: int, *, unique: bool
    ) -> list[ReceivedMessage]:
        header = QueryMessageRequest(topic, key, count, begin, end)
        fields = header.fields() | ({UNIQUE_KEY_QUERY: "true"} if unique else {})
        expect = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        wire = self._running().wire
        answers = await asyncio.gather(
            *(
                wire.ask(address, RequestCode.QUERY_MESSAGE, fields, timeout=6.0, expect=expect)
                for address in await self._readers_of(topic)
            )
        )
        return [message for answer in answers if answer.body for message in decode_messages(answer.body, "")]

    async def message_at(self, queue: MessageQueue, offset: int) -> ReceivedMessage | None:
        """The message at an offset of a queue; None when there is none, or it was deleted."""
        found = decode_messages((await self._pull(queue, offset, 1)).body, queue.broker_name)
        return found[0] if found and found[0].queue_offset == offset else None

    async def read(
        self, queue: MessageQueue, offset: int, count: int = 32, expression: str = "*"
    ) -> tuple[list[ReceivedMessage], int]:
        """Messages of a queue from an offset on, and the offset to continue from. Needs and changes no group."""
        result = await self._pull(queue, offset, count, expression)
        return decode_messages(result.body, queue.broker_name), result.next_offset

    async def pull(self, queue: MessageQueue, offset: int, count: int = 32, expression: str = "*") -> PullResult:
        """Like `read`, with the pull's status, and units that are not decoded."""
        return await self._pull(queue, offset, count, expression)

    async def _pull(self, queue: MessageQueue, offset: int, count: int, expression: str = "*") -> PullResult:
        return await self._running().calls.pull(TOOLS_GROUP, queue, offset, count, expression)

    async def track(self, message: ReceivedMessage) -> list[MessageTrack]:
        """What became of a message in each group of its topic."""
        groups = await self.topic_groups(message.topic)
        return list(await asyncio.gather(*(self._track(message, group) for group in groups)))

    async def _track(self, message: ReceivedMessage, group: str) -> MessageTrack:
        try:
            connection = await self.consumer_connections(group)
            if connection.consume_type == "CONSUME_ACTIVELY":
                return MessageTrack(group, TrackState.PULL)
            if not await self._is_consumed(message, group):
                return MessageTrack(group, TrackState.NOT_CONSUME_YET)
        except ResponseError as error:
            offline = error.code == ResponseCode.CONSUMER_NOT_ONLINE
            state = TrackState.NOT_ONLINE if offline else TrackState.UNKNOWN
            return MessageTrack(group, state, error.remark, error.code)
        except ArianeError as error:
            return MessageTrack(group, TrackState.UNKNOWN, str(error))
        wanted = connection.subscription_table.get(message.topic)
        tags = set(wanted.tags_set) if wanted is not None else set()
        passes = not tags or "*" in tags or message.tags in tags
        return MessageTrack(group, TrackState.CONSUMED if passes else TrackState.CONSUMED_BUT_FILTERED)

    async def _is_consumed(self, message: ReceivedMessage, group: str) -> bool:
        stats = await self.consume_stats(group, message.topic)
        brokers = (await self.cluster_info()).broker_addr_table
        return any(
            offsets.consumer_offset > message.queue_offset
            for queue, offsets in stats.offset_table.items()
            if (queue.topic, queue.queue_id) == (message.topic, message.queue.queue_id)
            and queue.broker_name in brokers
            and message.store_host in brokers[queue.broker_name].broker_addrs.values()
        )

    async def message_trace(self, message_id: str, *, trace_topic: str = TRACE_TOPIC) -> list[TraceRecord]:
        """The trace of a message: when and by which client it was sent and consumed, and whether that succeeded."""
        found = await self.query_messages(trace_topic, message_id)
        return [record for message in found for record in decode_trace(message) if record.message_id == message_id]

    async def resend(self, message: ReceivedMessage, *, topic: str | None = None) -> SendResult:
        """Send a message again to its topic as a new one, with its properties except those of the delivery."""
        again = as_new(message, topic or message.topic)
        async with self._producer("ariane-resend") as producer:
            return await producer.send(again)

    def _producer(self, group: str) -> "Producer":
        from ariane.client.producer.options import ProducerOptions  # most commands send nothing
        from ariane.client.producer.producer import Producer

        return Producer(group, options=ProducerOptions.of(self._client_options, {}))


def as_new(message: ReceivedMessage, topic: str) -> Message:
    """A message to send, with the body, keys, tags, properties and id of a received one."""
    if message.decode_error is not None:
        raise ClientError(f"message {message.message_id} cannot be sent again unchanged: {message.decode_error}")
    properties = {name: value for name, value in message.properties.items() if name not in OF_A_DELIVERY}
    return Message.with_properties(topic, message.body, properties, message.flag)


def decode_trace(message: ReceivedMessage) -> list[TraceRecord]:
    """The records of a message of the trace topic; unknown kinds are skipped."""
    host = message.born_host.rpartition(":")[0]
    records: list[TraceRecord] = []
    for line in message.body.decode(errors="replace").split("\x02"):
        fields = line.split("\x01")
        try:
            if fields[0] == "Pub":
                success = fields[13] == "true" if len(fields) > 13 else True
                records.append(
                    TraceRecord("Pub", fields[3], host, int(fields[1]), int(fields[10]), success, fields[5], fields[4],
                                fields[7])
                )  # fmt: skip
            elif fields[0] == "SubAfter":
                time, group = (int(fields[7]), fields[8]) if len(fields) > 8 else (message.born_time, "")
                success = fields[4] == "true"
                records.append(
                    TraceRecord("SubAfter", group, host, time, int(fields[3]), success, fields[2], keys=fields[5])
                )
        except (IndexError, ValueError):
            continue
    return records
