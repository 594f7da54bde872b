"""Requests from brokers to clients."""

import logging
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from ariane.client.connect.replies import Replies
from ariane.client.connect.tasks import Tasks
from ariane.client.decoding import decode_body, decode_message
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.message import PRODUCER_GROUP, REPLY_ARRIVE_TIME, UNIQUE_KEY, MessageQueue, ReceivedMessage
from ariane.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    CheckTransactionStateRequest,
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
    NotifyConsumerIdsChangedRequest,
    ReplyMessageRequest,
    ResetOffsetRequest,
)
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import decode_unit
from ariane.remoting import Connection, Handler

log = logging.getLogger("ariane.client")


class ConsumerMember(Protocol):
    """A consumer of a group, as brokers see it."""

    def describe(self) -> ConsumerData: ...

    def rebalance_soon(self) -> None: ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None: ...

    def offsets(self, topic: str) -> dict[MessageQueue, int]: ...

    def running_info(self) -> ConsumerRunningInfo: ...

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult: ...


@runtime_checkable
class TransactionMember(Protocol):
    """A producer of a group that can answer for its transactions."""

    async def answer_check(
        self, address: str, message: ReceivedMessage, header: CheckTransactionStateRequest
    ) -> None: ...


class ServerRequests:
    """The handlers, for the producers and consumers of one client instance."""

    def __init__(
        self,
        producers: Mapping[str, object],
        consumers: Mapping[str, ConsumerMember],
        replies: Replies,
        tasks: Tasks,
        clock: Clock,
    ) -> None:
        self._producers = producers
        self._consumers = consumers
        self._replies = replies
        self._tasks = tasks
        self._clock = clock

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self.members_changed,
            RequestCode.CHECK_TRANSACTION_STATE: self.check_transaction,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self.reset_offset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self.reply,
        }

    def members_changed(self, _: Connection, request: Command) -> None:
        """Rebalance: members of a group have joined or left."""
        consumer = self._consumers.get(NotifyConsumerIdsChangedRequest.parse(request.fields).consumer_group)
        if consumer is not None:
            consumer.rebalance_soon()

    def check_transaction(self, connection: Connection, request: Command) -> None:
        """Answer the check of a half message; any producer of its group may."""
        header = CheckTransactionStateRequest.parse(request.fields)
        message = decode_message(decode_unit(request.body), "")
        producer = self._producers.get(message.properties.get(PRODUCER_GROUP, ""))
        if isinstance(producer, TransactionMember):
            self._tasks.spawn(producer.answer_check(connection.address, message, header))
        else:
            log.info("no producer in this process can answer for transaction %s", header.transaction_id)

    def reset_offset(self, _: Connection, request: Command) -> None:
        """Move a group to other offsets, as an administrator asks."""
        header = ResetOffsetRequest.parse(request.fields)
        consumer = self._consumers.get(header.group)
        if consumer is not None and request.body:
            offsets = ResetOffsetBody.decode(request.body).offset_table
            self._tasks.spawn(consumer.reset_offsets(header.topic, offsets))

    def consumer_status(self, _: Connection, request: Command) -> Command:
        """Return the offsets of a consumer as it knows them."""
        header = GetConsumerStatusRequest.parse(request.fields)
        consumer = self._consumers.get(header.group)
        offsets = {} if consumer is None else consumer.offsets(header.topic)
        return request.reply(body=GetConsumerStatusBody(offsets).encode())

    def running_info(self, _: Connection, request: Command) -> Command:
        """Describe a consumer, for `mqadmin consumerStatus`."""
        header = GetConsumerRunningInfoRequest.parse(request.fields)
        info = self._consumer(header.consumer_group).running_info()
        if header.jstack_enable:
            info.jstack = _stacks()
        return request.reply(body=info.encode())

    async def consume_directly(self, _: Connection, request: Command) -> Command:
        """Call the listener with a message that an administrator chose."""
        header = ConsumeMessageDirectlyRequest.parse(request.fields)
        message = decode_message(decode_unit(request.body), header.broker_name or "")
        result = await self._consumer(header.consumer_group).consume_directly(message)
        return request.reply(body=result.encode())

    def reply(self, connection: Connection, request: Command) -> Command:
        """Take the reply to a request of this client."""
        header = ReplyMessageRequest.parse(request.fields)
        properties = decode_properties(header.properties or "")
        properties[REPLY_ARRIVE_TIME] = str(self._clock.now_ms())
        body, problem = decode_body(request.body, header.sys_flag)
        message = ReceivedMessage(
            topic=header.topic,
            body=body,
            properties=properties,
            queue=MessageQueue(header.topic, "", header.queue_id),
            queue_offset=-1,
            physical_offset=-1,
            message_id=properties.get(UNIQUE_KEY, ""),
            offset_id="",
            born_time=header.born_timestamp,
            born_host=header.born_host.lstrip("/"),
            store_time=header.store_timestamp,
            store_host=header.store_host.lstrip("/"),
            reconsume_times=header.reconsume_times or 0,
            sys_flag=header.sys_flag,
            flag=header.flag,
            decode_error=problem,
        )
        if not self._replies.take(message):
            log.warning("a reply from %s came too late: its request is no longer awaited", message.born_host)
        return request.reply()

    def _consumer(self, group: str) -> ConsumerMember:
        consumer = self._consumers.get(group)
        if consumer is None:
            remark = f"The Consumer Group <{group}> not exist in this consumer"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return consumer


def _stacks() -> str:
    """The stack of every thread, in place of Java's jstack."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(number, 'thread')} {number}\n{''.join(traceback.format_stack(frame))}"
        for number, frame in sys._current_frames().items()
    )
