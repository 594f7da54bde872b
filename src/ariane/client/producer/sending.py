"""One try to send, and the rules for trying again."""

import logging
from collections.abc import Sequence

from ariane.client.anywhere import Home
from ariane.client.connect.instance import Instance
from ariane.client.connect.namespaces import wrap
from ariane.client.connect.refusals import advised, refusal
from ariane.client.connect.routes import Route
from ariane.client.observe.hooks import ForbidHook, SendContext, SendHook, SendMode, call_hooks
from ariane.client.options import ProducerOptions
from ariane.client.producer.fast_send import FirstTries
from ariane.client.producer.outgoing import Outgoing, fixed_fields
from ariane.client.producer.queue_choice import QueueChooser
from ariane.client.results import SendResult, SendStatus
from ariane.errors import (
    AccessDenied,
    ArianeError,
    BrokerRefused,
    ConnectFailed,
    InvalidMessage,
    ProtocolError,
    RemotingError,
    RouteMissing,
    SendError,
)
from ariane.message import MSG_REGION, TRACE_ON, MessageQueue
from ariane.protocol.codes import VERSION_5_0_0, RequestCode, ResponseCode
from ariane.protocol.command import Command

log = logging.getLogger("ariane.client")

RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
"""Refusals after which another broker is tried."""

_STATUS = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}


def may_retry(error: ArianeError) -> bool:
    """Whether another broker may do better; a denial would be the same everywhere."""
    if isinstance(error, AccessDenied):
        return False
    if isinstance(error, BrokerRefused):
        return error.code in RETRY_CODES
    return isinstance(error, RemotingError | RouteMissing)


class Sender:
    """Sends requests of one producer."""

    def __init__(self, instance: Instance, group: str, options: ProducerOptions) -> None:
        self._instance = instance
        self._clock = instance.env.clock
        self._group = group
        self._options = options
        self._fixed = fixed_fields(group, options)
        self.chooser = QueueChooser(options, instance.env.clock, instance.env.random)
        self._first = FirstTries(instance, group, options, self.chooser)
        self.hooks: Sequence[SendHook] = ()
        self.vetoes: Sequence[ForbidHook] = ()

    async def route(self, topic: str) -> Route:
        """Where the topic's queues are; RouteMissing when nobody may write to it."""
        topic = wrap(self._options.namespace, topic)
        route = self._instance.routes.known(topic)
        if route is not None and route.write_queues:
            return route
        model, queues = self._options.create_topic_key, self._options.default_topic_queues
        route = await self._instance.routes.find_to_publish(topic, model, queues)
        if not route.write_queues:
            raise RouteMissing(f"topic {topic} has no queue to write to now: no master is up, or none permits writing")
        return route

    @property
    def home(self) -> Home:
        """Await it before anything that only the loop's thread may do."""
        return self._first.home

    def watch(self, hooks: Sequence[SendHook], vetoes: Sequence[ForbidHook]) -> None:
        """Let hooks see every try from now on."""
        self.hooks = hooks
        self.vetoes = vetoes
        self._first.possible = self._first.possible and not hooks and not vetoes

    async def check_timers(self, out: Outgoing) -> None:
        """InvalidMessage when a broker of the topic would deliver at once what has a time to be delivered at."""
        route = await self.route(out.message.topic)
        for name in dict.fromkeys(queue.broker_name for queue in route.write_queues):
            address = self._instance.routes.master(name)
            if address is not None and await self._instance.broker_version(address) < VERSION_5_0_0:
                raise InvalidMessage(
                    f"deliver_at needs brokers of RocketMQ 5: {name} ({address}) would deliver at once; use delay_level"
                )

    def close(self) -> None:
        """Give back what only this producer used."""
        self._first.close()

    async def send_quickly(self, out: Outgoing, timeout: float) -> SendResult:
        """Like `send_anywhere`, and may begin in any thread: the first try is made there when all it needs is known."""
        started = self._clock.monotonic()
        first = self._first.make(out, started, timeout) if self._first.possible else None
        if first is None:
            await self._first.home
            return await self.send_anywhere(out, timeout)
        causes: list[Exception] = []
        result: SendResult | None = None
        try:
            response = await first.question
            if response.code not in _STATUS:
                raise refusal(first.question.address, RequestCode.SEND_MESSAGE_V2, response)
            result = _result(out, first.queue, response)
        except ArianeError as error:
            if not may_retry(error):
                raise
            causes.append(advised(error) if isinstance(error, RemotingError) else error)
        if result is not None and self._is_good(result):
            return result
        await self._first.home
        return await self._send_on(out, started, timeout, first.queue.broker_name, causes, result)

    async def send_anywhere(self, out: Outgoing, timeout: float) -> SendResult:
        """Try brokers in turn until one stores the message, within one time-out over all tries."""
        return await self._send_on(out, self._clock.monotonic(), timeout, None, [], None)

    def _is_good(self, result: SendResult) -> bool:
        return result.status is SendStatus.SEND_OK or not self._options.retry_another_broker_when_not_store_ok

    async def _send_on(
        self,
        out: Outgoing,
        started: float,
        timeout: float,
        last: str | None,
        causes: list[Exception],
        result: SendResult | None,
    ) -> SendResult:
        """The tries that are left, after one to broker `last` if there was one."""
        route = await self.route(out.message.topic)
        for _ in range((1 if last is None else 0) + self._options.retries):
            left = timeout - (self._clock.monotonic() - started)
            if left <= 0:
                break
            queue = self.chooser.choose(route, last)
            last = queue.broker_name
            try:
                result = await self.send_to(out, queue, left, SendMode.SYNC)
            except ArianeError as error:
                if not may_retry(error):
                    raise
                causes.append(error)
                continue
            if self._is_good(result):
                return result
        return result or self._give_up(out, causes, self._clock.monotonic() - started, timeout)

    async def send_again(self, out: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        """Try the same broker again when a request was not carried there and back."""
        started = self._clock.monotonic()
        causes: list[Exception] = []
        for _ in range(1 + self._options.async_retries):
            left = timeout - (self._clock.monotonic() - started)
            if left <= 0:
                break
            try:
                return await self.send_to(out, queue, left, SendMode.ASYNC)
            except RemotingError as error:
                causes.append(error)
        return self._give_up(out, causes, self._clock.monotonic() - started, timeout)

    def _give_up(self, out: Outgoing, causes: list[Exception], seconds: float, timeout: float) -> SendResult:
        tries = f"{len(causes)} tries" if len(causes) != 1 else "1 try"
        late = f"; the time-out of {timeout:g} s over all tries is up" if seconds >= timeout else ""
        reasons = "; ".join(dict.fromkeys(str(cause) for cause in causes)) or "there was no time to try"
        what = f"message {out.message_id} to {out.message.topic} was not stored after {tries} in {seconds:.1f} s"
        raise SendError(f"{what}: {reasons}{late}", tuple(causes)) from (causes[-1] if causes else None)

    async def send_to(self, out: Outgoing, queue: MessageQueue, timeout: float, mode: SendMode) -> SendResult:
        """One try to one queue."""
        if self.chooser.takes_notes:
            return await self._noted(out, queue, timeout, mode)
        return await self._try(out, queue, timeout, mode)

    async def _noted(self, out: Outgoing, queue: MessageQueue, timeout: float, mode: SendMode) -> SendResult:
        started = self._clock.monotonic()
        failed = True
        try:
            result = await self._try(out, queue, timeout, mode)
            failed = False
            return result
        finally:
            self.chooser.note(queue.broker_name, (self._clock.monotonic() - started) * 1000, failed)

    async def _try(self, out: Outgoing, queue: MessageQueue, timeout: float, mode: SendMode) -> SendResult:
        address = self._instance.routes.master(queue.broker_name) or await self._instance.calls.master(queue)
        if self._options.vip_channel:
            address = vip_address(address)
        try:
            if self.hooks or self.vetoes:
                return await self._watched(out, queue, address, timeout, mode)
            return await self._request(out, queue, address, timeout)
        except RemotingError as error:
            if isinstance(error, ConnectFailed):
                self._instance.tasks.spawn(self._ask_again(out.message.topic))
            raise advised(error) from error

    async def _ask_again(self, topic: str) -> None:
        """A broker that cannot be reached may have moved: ask for its route at once."""
        await self._instance.routes.refresh_quietly(topic)

    async def _watched(
        self, out: Outgoing, queue: MessageQueue, address: str, timeout: float, mode: SendMode
    ) -> SendResult:
        context = self._context(out, queue, address, mode)
        self._before(context)
        try:
            context.result = await self._request(out, queue, address, timeout)
        except ArianeError as error:
            context.error = error
            raise
        finally:
            call_hooks([hook.after_send for hook in self.hooks], context)
        return context.result

    def _context(self, out: Outgoing, queue: MessageQueue, address: str, mode: SendMode) -> SendContext:
        here = self._instance.address
        return SendContext(self._group, out.message, out.message_id, queue, address, mode, here, out.properties)

    def _before(self, context: SendContext) -> None:
        for veto in self.vetoes:
            veto.check_forbidden(context)
        call_hooks([hook.before_send for hook in self.hooks], context)

    def _command(self, out: Outgoing, queue: MessageQueue) -> Command:
        fields = out.fields(self._fixed, queue, self._clock.now_ms())
        return self._instance.wire.command(out.code, fields, out.body)

    async def _request(self, out: Outgoing, queue: MessageQueue, address: str, timeout: float) -> SendResult:
        command = self._command(out, queue)
        response = await self._instance.remoting.request(address, command, timeout)
        if response.code not in _STATUS:
            raise refusal(address, command.code, response)
        return _result(out, queue, response)

    async def send_oneway(self, out: Outgoing, queue: MessageQueue) -> None:
        """Hand a message to the connection; nobody tells whether it arrived."""
        address = await self._instance.calls.master(queue)
        if self._options.vip_channel:
            address = vip_address(address)
        if self.hooks or self.vetoes:
            context = self._context(out, queue, address, SendMode.ONEWAY)
            self._before(context)
            await self._instance.remoting.oneway(address, self._command(out, queue))
            call_hooks([hook.after_send for hook in self.hooks], context)
        else:
            await self._instance.remoting.oneway(address, self._command(out, queue))


def vip_address(address: str) -> str:
    """The second port of a broker.

    >>> vip_address("10.0.0.1:10911")
    '10.0.0.1:10909'
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"


def _result(out: Outgoing, queue: MessageQueue, response: Command) -> SendResult:
    fields = response.fields
    try:
        queue_id, queue_offset, offset_id = int(fields["queueId"]), int(fields["queueOffset"]), fields["msgId"]
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"the answer to a send is not one: {fields} ({error})") from None
    if queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
    return SendResult(
        _STATUS[response.code],
        out.message_id,
        queue,
        queue_offset,
        offset_id,
        fields.get("transactionId"),
        fields.get(MSG_REGION) or "DefaultRegion",
        fields.get(TRACE_ON) != "false",
        out.message_ids or (out.message_id,),
    )
