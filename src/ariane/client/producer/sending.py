"""Sending: one attempt to a queue, and the attempts that a call makes."""

from collections.abc import Sequence

from ariane.client.connect.instance import Instance
from ariane.client.connect.namespaces import wrap
from ariane.client.connect.refusals import advised
from ariane.client.connect.routes import Route
from ariane.client.observe.hooks import ForbidHook, SendContext, SendHook, SendMode, call_hooks
from ariane.client.producer.fast_send import Attempt, FastSend, send_result
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.outgoing import Outgoing, Packer, fixed_fields
from ariane.client.producer.queue_choice import QueueChooser
from ariane.client.producer.retry import Attempts, may_retry_elsewhere
from ariane.client.results import SendResult, SendStatus
from ariane.errors import ArianeError, ConnectFailed, InvalidMessage, RemotingError, RouteMissing
from ariane.message import Message, MessageQueue
from ariane.protocol.command import Command


class Sender:
    """Sends the requests of one producer."""

    def __init__(self, instance: Instance, group: str, options: ProducerOptions, packer: Packer) -> None:
        self._instance = instance
        self._clock = instance.env.clock
        self._group = group
        self._options = options
        self._fixed = fixed_fields(group, options)
        self.chooser = QueueChooser(options, instance.env.clock, instance.env.random)
        self._packer = packer
        self.fast = FastSend(instance, group, options, self.chooser, packer)
        self._hooks: Sequence[SendHook] = ()
        self._vetoes: Sequence[ForbidHook] = ()

    async def route(self, topic: str) -> Route:
        """The route of a topic to write to; RouteMissing when it has no queue for that."""
        topic = wrap(self._options.namespace, topic)
        route = self._instance.routes.known(topic)
        if route is not None and route.write_queues:
            return route
        model, queues = self._options.create_topic_key, self._options.default_topic_queues
        route = await self._instance.routes.find_to_publish(topic, model, queues)
        if not route.write_queues:
            raise RouteMissing(f"topic {topic} has no queue to write to now: no master is up, or none permits writing")
        return route

    def watch(self, hooks: Sequence[SendHook], vetoes: Sequence[ForbidHook]) -> None:
        """Call hooks around every attempt from now on."""
        self._hooks = hooks
        self._vetoes = vetoes
        self.fast.possible = self.fast.possible and not hooks and not vetoes

    async def check_timers(self, out: Outgoing) -> None:
        """Raise InvalidMessage if a broker of the topic would ignore the message's delivery time."""
        route = await self.route(out.message.topic)
        for name in dict.fromkeys(queue.broker_name for queue in route.write_queues):
            address = self._instance.routes.master(name)
            if address is not None and not await self._instance.has_timers(address):
                raise InvalidMessage(
                    f"deliver_at needs a broker of Ariane or RocketMQ 5: {name} ({address}) would deliver at once; "
                    "use delay_level"
                )

    def close(self) -> None:
        """Close the connections that only this producer used."""
        self.fast.close()

    async def send_after(
        self, message: Message, attempt: Attempt, failure: ArianeError | None, result: SendResult | None
    ) -> SendResult:
        """Continue a send whose fast attempt failed, or got a result that is not good enough, on other brokers."""
        attempts = Attempts(self._clock, attempt.timeout, self._options.retries, attempt.started)
        if failure is not None:
            attempts.failed(advised(failure), retry=may_retry_elsewhere(failure))
        out = self._packer.pack(message, attempt.message_id)
        return await self._send_elsewhere(out, attempts, attempt.queue.broker_name, result)

    async def send_anywhere(self, out: Outgoing, timeout: float) -> SendResult:
        """Try brokers in turn until one stores the message."""
        return await self._send_elsewhere(out, Attempts(self._clock, timeout, 1 + self._options.retries), None, None)

    async def _send_elsewhere(
        self, out: Outgoing, attempts: Attempts, last_broker: str | None, result: SendResult | None
    ) -> SendResult:
        """Make the attempts that are left, on other brokers than the last one."""
        route = await self.route(out.message.topic)
        while attempts.begin():
            queue = self.chooser.choose(route, last_broker)
            last_broker = queue.broker_name
            try:
                result = await self.send_to(out, queue, attempts.time_left(), SendMode.SYNC)
                if self.is_good(result):
                    return result
            except ArianeError as error:
                attempts.failed(error, retry=may_retry_elsewhere(error))
        if result is None:
            raise attempts.exhausted(out.message_id, out.message.topic)
        return result

    def is_good(self, result: SendResult) -> bool:
        """Whether no other broker shall be tried after this result."""
        return result.status is SendStatus.SEND_OK or not self._options.retry_another_broker_when_not_store_ok

    async def send_again(self, out: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        """Try the same broker until it responds."""
        attempts = Attempts(self._clock, timeout, 1 + self._options.async_retries)
        while attempts.begin():
            try:
                return await self.send_to(out, queue, attempts.time_left(), SendMode.ASYNC)
            except RemotingError as error:
                attempts.failed(error, retry=True)
        raise attempts.exhausted(out.message_id, out.message.topic)

    async def send_to(self, out: Outgoing, queue: MessageQueue, timeout: float, mode: SendMode) -> SendResult:
        """Make one attempt to one queue."""
        started = self._clock.monotonic()
        context: SendContext | None = None
        failed = True
        try:
            address = await self._address(queue)
            context = self._before(out, queue, address, mode)
            response = await self._instance.remoting.request(address, self._command(out, queue), timeout)
            result = send_result(out.code, out.message_id, out.message_ids, queue, address, response)
            if context is not None:
                context.result = result
            failed = False
            return result
        except ArianeError as error:
            if isinstance(error, ConnectFailed):  # the broker may have moved
                self._instance.tasks.spawn(self._refresh(out.message.topic))
            if context is not None:
                context.error = error
            raise advised(error) from error
        finally:
            self.chooser.note(queue.broker_name, (self._clock.monotonic() - started) * 1000, failed)
            if context is not None:
                call_hooks([hook.after_send for hook in self._hooks], context)

    async def send_oneway(self, out: Outgoing, queue: MessageQueue) -> None:
        """Write a message to the connection; there is no response."""
        address = await self._address(queue)
        context = self._before(out, queue, address, SendMode.ONEWAY)
        await self._instance.remoting.oneway(address, self._command(out, queue))
        if context is not None:
            call_hooks([hook.after_send for hook in self._hooks], context)

    async def _address(self, queue: MessageQueue) -> str:
        address = self._instance.routes.master(queue.broker_name) or await self._instance.calls.master(queue)
        return vip_address(address) if self._options.vip_channel else address

    async def _refresh(self, topic: str) -> None:
        await self._instance.routes.refresh_quietly(topic)

    def _before(self, out: Outgoing, queue: MessageQueue, address: str, mode: SendMode) -> SendContext | None:
        """Call the hooks before a send, which may refuse it; None when there are none."""
        if not self._hooks and not self._vetoes:
            return None
        here = self._instance.address
        context = SendContext(self._group, out.message, out.message_id, queue, address, mode, here, out.properties)
        for veto in self._vetoes:
            veto.check_forbidden(context)
        call_hooks([hook.before_send for hook in self._hooks], context)
        return context

    def _command(self, out: Outgoing, queue: MessageQueue) -> Command:
        fields = out.fields(self._fixed, queue, self._clock.now_ms())
        return self._instance.wire.command(out.code, fields, out.body)


def vip_address(address: str) -> str:
    """The second port of a broker.

    >>> vip_address("10.0.0.1:10911")
    '10.0.0.1:10909'
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"
