"""Requests to brokers about queues: offsets, pulls, locks, members of a group."""

from typing import Final

from ariane.client.connect.filter_uploads import FilterUploads
from ariane.client.connect.refusals import refusal
from ariane.client.connect.routes import MASTER, Routes
from ariane.client.connect.wire import SUCCESS, Wire
from ariane.client.options import Selector, WasmFilter, text_and_kind, uses_filter_server
from ariane.client.results import PullResult, PullStatus
from ariane.errors import BrokerRefused, RouteMissing
from ariane.message import MessageQueue
from ariane.protocol.bodies import (
    ConsumerIdList,
    ConsumerOffsetTable,
    LockBatchRequestBody,
    LockBatchResponseBody,
    QueueKey,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    GetConsumerListByGroupRequest,
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    Header,
    OffsetResponse,
    PullMessageRequest,
    PullMessageResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from ariane.protocol.headers.consume import CLASS_FILTER, COMMIT_OFFSET, SUBSCRIPTION, SUSPEND

LITE_PULL = 0x10  # a bit of a pull's sys flag that brokers of 4.9 ignore

_STATUS: Final[dict[int, PullStatus]] = {
    SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCH,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


def pull_header(
    group: str,
    queue: MessageQueue,
    offset: int,
    max_count: int,
    expression: Selector,
    sys_flag: int,
    commit_offset: int,
    suspend: float,
    version: int,
) -> PullMessageRequest:
    """The header of a pull."""
    text, kind = text_and_kind(expression)
    if suspend > 0:
        sys_flag |= SUSPEND
    return PullMessageRequest(
        group, queue.topic, queue.queue_id, offset, max_count, sys_flag, commit_offset,
        int(suspend * 1000), version, text if sys_flag & (SUBSCRIPTION | CLASS_FILTER) else None, kind,
    )  # fmt: skip


def pull_result(address: str, response: Command) -> PullResult:
    """The response to a pull; BrokerRefused when it is a refusal."""
    status = _STATUS.get(response.code)
    if status is None:
        raise refusal(address, RequestCode.PULL_MESSAGE, response)
    found = PullMessageResponse.parse(response.fields)
    return PullResult(
        status,
        found.next_begin_offset,
        found.min_offset,
        found.max_offset,
        response.body,
        found.suggest_which_broker_id,
    )


class BrokerCalls:
    """Sends requests about a queue to its broker."""

    def __init__(self, wire: Wire, routes: Routes) -> None:
        self.wire = wire
        self.routes = routes
        self.uploads = FilterUploads(wire)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, sorted."""
        return sorted((await self.routes.refresh(topic)).read_queues)

    async def master(self, queue: MessageQueue) -> str:
        """The address of a queue's master; refreshes the route when it is not known."""
        address = self.routes.master(queue.broker_name)
        if address is None:
            await self.routes.refresh(queue.topic)
            address = self.routes.master(queue.broker_name)
        if address is None:
            raise RouteMissing(f"broker {queue.broker_name} of topic {queue.topic} has no master now (is it up?)")
        return address

    async def reader(self, queue: MessageQueue, broker_id: int = MASTER) -> tuple[str, bool]:
        """An address to read a queue from, and whether it is a slave."""
        found = self.routes.reader(queue.broker_name, broker_id)
        if found is None:
            await self.routes.refresh(queue.topic)
            found = self.routes.reader(queue.broker_name, broker_id)
        if found is None:
            raise RouteMissing(f"broker {queue.broker_name} of topic {queue.topic} is not registered now (is it up?)")
        return found

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the broker still has."""
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET, GetMinOffsetRequest(queue.topic, queue.queue_id))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequest(queue.topic, queue.queue_id))

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message stored at or after a time in milliseconds."""
        header = SearchOffsetRequest(queue.topic, queue.queue_id, timestamp)
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """The store time of the oldest message, in milliseconds."""
        header = GetEarliestMsgStoretimeRequest(queue.topic, queue.queue_id)
        address, _ = await self.reader(queue)
        response = await self.wire.ask(address, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        return GetEarliestMsgStoretimeResponse.parse(response.fields).timestamp

    async def _offset(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        address, _ = await self.reader(queue)
        response = await self.wire.ask(address, code, header)
        return OffsetResponse.parse(response.fields).offset

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group committed; None when it never did.

        For a queue that still has its first message a broker returns 0 to a group without an offset. Only the broker's
        whole offset table shows whether a 0 was committed.
        """
        offset = await self.consumer_offset(group, queue)
        if offset != 0:
            return offset
        address, _ = await self.reader(queue)
        try:
            response = await self.wire.ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        except BrokerRefused:
            return offset
        table = ConsumerOffsetTable.decode(response.body).offset_table
        return table.get(f"{queue.topic}@{group}", {}).get(queue.queue_id)

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset at which a group continues; None when it has none and the queue lacks its first message."""
        address, _ = await self.reader(queue)
        header = QueryConsumerOffsetRequest(group, queue.topic, queue.queue_id)
        codes = (SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        response = await self.wire.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout=5.0, expect=codes)
        return OffsetResponse.parse(response.fields).offset if response.code == SUCCESS else None

    async def commit(self, group: str, queue: MessageQueue, offset: int, *, wait: bool = True) -> None:
        """Commit a group's offset at the broker."""
        address, _ = await self.reader(queue)
        header = UpdateConsumerOffsetRequest(group, queue.topic, queue.queue_id, offset)
        if wait:
            await self.wire.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout=5.0)
        else:
            await self.wire.tell(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def pull(
        self,
        group: str,
        queue: MessageQueue,
        offset: int,
        max_count: int,
        expression: Selector = "*",
        *,
        sys_flag: int = SUBSCRIPTION,
        commit_offset: int = 0,
        suspend: float = 0.0,
        version: int = 0,
        broker_id: int = MASTER,
        timeout: float = 10.0,
    ) -> PullResult:
        """Pull once. With `suspend` the broker holds the pull for so many seconds when it finds nothing."""
        address, sys_flag = await self.pull_target(group, queue, broker_id, expression, sys_flag)
        header = pull_header(group, queue, offset, max_count, expression, sys_flag, commit_offset, suspend, version)
        request = self.wire.command(RequestCode.PULL_MESSAGE, header)
        return pull_result(address, await self.wire.remoting.request(address, request, timeout + suspend))

    async def pull_target(
        self, group: str, queue: MessageQueue, broker_id: int, expression: Selector, sys_flag: int
    ) -> tuple[str, int]:
        """The address to pull a queue from, and the sys flag for it; a module that is missing there is uploaded."""
        address, is_slave = await self.reader(queue, broker_id)
        if is_slave:
            sys_flag &= ~COMMIT_OFFSET
        if isinstance(expression, WasmFilter):
            await self.uploads.ensure(address, group, queue.topic, expression)
        if uses_filter_server(expression):
            sys_flag |= CLASS_FILTER
            address = await self._filter_server(queue, address)
        return address, sys_flag

    async def _filter_server(self, queue: MessageQueue, broker: str) -> str:
        """A filter server beside a broker; queues are spread over all of them."""
        servers = (await self.routes.find(queue.topic)).data.filter_server_table.get(broker)
        if not servers:
            servers = (await self.routes.refresh(queue.topic)).data.filter_server_table.get(broker)
        if not servers:
            raise RouteMissing(
                f"no filter server is registered with broker {queue.broker_name} at {broker}: "
                "start one (ariane filterserver), or filter without filter_server=True"
            )
        return servers[queue.queue_id % len(servers)]

    async def members(self, group: str, address: str) -> list[str]:
        """The client ids of a group, as one broker knows them."""
        header = GetConsumerListByGroupRequest(group)
        response = await self.wire.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        return ConsumerIdList.decode(response.body).consumer_id_list if response.body else []

    async def lock(self, address: str, group: str, client_id: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        """Lock queues of one broker for this client; returns those that are locked."""
        body = LockBatchRequestBody(group, client_id, [QueueKey.of(queue) for queue in queues])
        response = await self.wire.ask(address, RequestCode.LOCK_BATCH_MQ, body=body.encode(), timeout=1.0)
        return {key.queue() for key in LockBatchResponseBody.decode(response.body).lock_ok_mq_set}

    async def unlock(self, address: str, group: str, client_id: str, queues: list[MessageQueue], *, wait: bool) -> None:
        """Unlock queues."""
        body = LockBatchRequestBody(group, client_id, [QueueKey.of(queue) for queue in queues]).encode()
        if wait:
            await self.wire.ask(address, RequestCode.UNLOCK_BATCH_MQ, body=body, timeout=1.0)
        else:
            await self.wire.tell(address, RequestCode.UNLOCK_BATCH_MQ, body=body)
