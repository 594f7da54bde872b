"""Transactions: half messages that wait for their producer, and how to end them by hand."""

import asyncio
from dataclasses import dataclass

from ariane.client.admin.messages import TOOLS_GROUP, MessageAdmin
from ariane.client.connect.routes import MASTER
from ariane.client.decoding import decode_message, decode_messages
from ariane.errors import BrokerRefused, ClientError
from ariane.message import (
    HALF_OP_TOPIC,
    HALF_TOPIC,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    UNIQUE_KEY,
    MessageQueue,
    ReceivedMessage,
)
from ariane.protocol.bodies import QueryConsumeQueueResponseBody
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import (
    EndTransactionRequest,
    QueryConsumeQueueRequest,
    ResumeCheckHalfMessageRequest,
    ViewMessageRequest,
)
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, decode_unit

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
PAGE = 32
FAR = 1 << 31
ENTRIES = 500  # of a consumequeue in one request
AT_ONCE = 16  # requests for op messages


@dataclass(frozen=True)
class HalfMessage:
    """A half message whose transaction is open."""

    message: ReceivedMessage
    broker_name: str
    address: str

    @property
    def topic(self) -> str:
        """The topic that receives it when it is committed."""
        return self.message.properties.get(REAL_TOPIC, "")

    @property
    def producer_group(self) -> str:
        """The group that the broker asks about it."""
        return self.message.properties.get(PRODUCER_GROUP, "")

    @property
    def checks(self) -> int:
        """How often the broker has asked."""
        text = self.message.properties.get(TRANSACTION_CHECK_TIMES, "")
        return int(text) if text.isdigit() else 0


class TransactionAdmin(MessageAdmin):
    """Administers transactions."""

    async def half_messages(self, *, limit: int = 1000) -> list[HalfMessage]:
        """Half messages whose transaction is open, oldest first, at most `limit` of each broker."""
        info = await self.cluster_info()
        self._running().routes.keep_cluster(info)
        found: list[HalfMessage] = []
        for name, broker in sorted(info.broker_addr_table.items()):
            if MASTER in broker.broker_addrs:
                open_ones = await self._open_transactions(name, broker.broker_addrs[MASTER], limit)
                found += [HalfMessage(message, name, broker.broker_addrs[MASTER]) for message in open_ones]
        return found

    async def _open_transactions(self, broker_name: str, address: str, limit: int) -> list[ReceivedMessage]:
        """Half messages after the offset up to which all are ended, without those that an op message ended."""
        half, op = MessageQueue(HALF_TOPIC, broker_name, 0), MessageQueue(HALF_OP_TOPIC, broker_name, 0)
        try:
            halves = await self._all(half, await self._front(half), FAR)
        except BrokerRefused as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise  # the half topic is created with the first half message
            return []
        ended: set[int] = set()
        for body in await self._op_bodies(op, address) if halves else ():
            ended.update(int(text) for text in body.decode(errors="replace").split(",") if text.isdigit())
        newest = {message.message_id: message for message in halves if message.queue_offset not in ended}
        return list(newest.values())[:limit]

    async def _front(self, queue: MessageQueue) -> int:
        """The offset before which every half message is ended."""
        return await self._running().calls.consumer_offset(TRANSACTION_GROUP, queue) or 0

    async def _op_bodies(self, op: MessageQueue, address: str) -> list[bytes]:
        """The bodies of op messages from the front on.

        Brokers store them under a topic that is not in their topic table, so that a pull is refused: the entries of the
        consumequeue say where the messages are, and each is asked for by its place.
        """
        calls, wire = self._running().calls, self._running().wire
        offset, end = max(await self._front(op), await calls.min_offset(op)), await calls.max_offset(op)
        slots = asyncio.Semaphore(AT_ONCE)

        async def body(place: int) -> bytes:
            async with slots:
                answer = await wire.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(place))
            return decode_message(decode_unit(answer.body), op.broker_name).body

        found: list[bytes] = []
        while offset < end:
            header = QueryConsumeQueueRequest(op.topic, op.queue_id, offset, ENTRIES, None)
            response = await wire.ask(address, RequestCode.QUERY_CONSUME_QUEUE, header)
            entries = QueryConsumeQueueResponseBody.decode(response.body).queue_data if response.body else []
            if not entries:
                break
            found += await asyncio.gather(*(body(one.physic_offset) for one in entries))
            offset += len(entries)
        return found

    async def _all(self, queue: MessageQueue, offset: int, limit: int) -> list[ReceivedMessage]:
        calls = self._running().calls
        offset, end = max(offset, await calls.min_offset(queue)), await calls.max_offset(queue)
        messages: list[ReceivedMessage] = []
        while offset < end and len(messages) < limit:
            result = await calls.pull(TOOLS_GROUP, queue, offset, PAGE)
            messages += decode_messages(result.body, queue.broker_name)
            if result.next_offset <= offset:
                break
            offset = result.next_offset
        return messages

    async def end_transaction(self, message_id: str, *, commit: bool) -> HalfMessage:
        """Commit or roll back a half message by its unique id, on behalf of a producer that is gone."""
        half = next((one for one in await self.half_messages(limit=FAR) if one.message.message_id == message_id), None)
        if half is None:
            raise ClientError(f"no open transaction has the message {message_id}: was it ended meanwhile?")
        message = half.message
        header = EndTransactionRequest(
            half.producer_group,
            message.queue_offset,
            message.physical_offset,
            TRANSACTION_COMMIT if commit else TRANSACTION_ROLLBACK,
            message.properties.get(UNIQUE_KEY, message_id),
            False,
            message.properties.get(UNIQUE_KEY),
        )
        await self._running().wire.ask(half.address, RequestCode.END_TRANSACTION, header)
        return half

    async def resume_checks(self, offset_id: str, *, address: str) -> None:
        """Have a broker check a half message again that it gave up."""
        header = ResumeCheckHalfMessageRequest(offset_id)
        await self._running().wire.ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
