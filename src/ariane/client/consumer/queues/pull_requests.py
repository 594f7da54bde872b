"""Sends the pulls of a queue: several together, encoded from a template in which only offset and opaque change."""

import asyncio
from collections.abc import Sequence

from ariane.client.connect.broker_calls import BrokerCalls, pull_header
from ariane.client.options import Selector
from ariane.errors import RequestTimeout
from ariane.message import MessageQueue
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import JSON, Command, encode_header
from ariane.protocol.frame_head import framed
from ariane.protocol.headers import PullMessageRequest
from ariane.remoting import Connection

TEMPLATE_OFFSET, _OPAQUE = 1, 2  # of the request that a template is made of

Conditions = tuple[Selector, int, float, int]
"""What pulls of one queue share: expression, sys flag, seconds that a broker may hold them, subscription version."""


class PullTemplate:
    """The encoded pulls of one queue."""

    def __init__(self, header: PullMessageRequest) -> None:
        """REQUIRES: the header asks for `TEMPLATE_OFFSET`."""
        command = Command(RequestCode.PULL_MESSAGE, header.fields(), opaque=_OPAQUE)
        text = encode_header(command).decode()  # a quote inside of a value is escaped, so these are members
        self._head, _, rest = text.partition(f'"queueOffset":"{TEMPLATE_OFFSET}"')
        self._middle, _, self._tail = rest.partition(f'"opaque":{_OPAQUE}')

    def frame(self, offset: int, opaque: int) -> bytes:
        """The request for messages from an offset on."""
        text = f'{self._head}"queueOffset":"{offset}"{self._middle}"opaque":{opaque}{self._tail}'
        return framed(text.encode(), JSON)


class SentPulls:
    """Pulls on their way; iterate over their responses in order. `forget` drops those that are not wanted any more."""

    def __init__(self, connection: Connection, timeout: float, started: float) -> None:
        self.address = connection.address
        self._connection = connection
        self._timeout = timeout
        self._started = started
        self._sent: list[tuple[int, asyncio.Future[Command]]] = []

    def send(self, frame: bytes, opaque: int, future: asyncio.Future[Command]) -> None:
        """Send one more."""
        self._connection.submit_encoded(frame, opaque, self._timeout, future)
        self._sent.append((opaque, future))

    def add(self, future: asyncio.Future[Command]) -> None:
        """Follow a request that was sent in another way."""
        self._sent.append((-1, future))

    async def response(self, number: int) -> Command:
        """The response to one of the pulls; RequestTimeout or SendFailed when there is none."""
        try:
            return await self._sent[number][1]
        except RequestTimeout:
            if self._connection.last_read < self._started:  # no bytes received: the peer may be gone
                self._connection.close(f"silent for {self._timeout:g} s")
            raise

    def forget(self) -> None:
        """Drop the pulls that are not answered yet."""
        for opaque, future in self._sent:
            if not future.done():
                future.cancel()
                self._connection.forget(opaque)
            elif not future.cancelled():
                future.exception()  # mark it as retrieved


class PullRequests:
    """Sends the pulls of a consumer."""

    def __init__(self, group: str, calls: BrokerCalls, batch: int) -> None:
        self._group = group
        self._calls = calls
        self._batch = batch
        self._templates: dict[MessageQueue, tuple[Conditions, PullTemplate]] = {}

    async def send(
        self,
        queue: MessageQueue,
        offsets: Sequence[int],
        broker_id: int,
        conditions: Conditions,
        timeout: float,
        started: float,
    ) -> SentPulls:
        """Send a pull for each offset, all to one broker; ConnectFailed or SendFailed when that is not possible."""
        expression, sys_flag, suspend, version = conditions
        address, sys_flag = await self._calls.pull_target(self._group, queue, broker_id, expression, sys_flag)
        conditions = expression, sys_flag, suspend, version
        remoting = self._calls.wire.remoting
        connection = await remoting.connection(address)
        pulls = SentPulls(connection, timeout, started)
        if not connection.is_clear or self._calls.wire.is_binary:
            for offset in offsets:
                command = self._calls.wire.command(RequestCode.PULL_MESSAGE, self._header(queue, offset, conditions))
                pulls.add(asyncio.ensure_future(connection.request(command, timeout)))
            return pulls
        template = self._template(queue, conditions)
        loop = asyncio.get_running_loop()
        for offset in offsets:
            opaque = connection.next_opaque()
            pulls.send(template.frame(offset, opaque), opaque, loop.create_future())
        return pulls

    def _template(self, queue: MessageQueue, conditions: Conditions) -> PullTemplate:
        known = self._templates.get(queue)
        if known is not None and known[0] == conditions:
            return known[1]
        template = PullTemplate(self._header(queue, TEMPLATE_OFFSET, conditions))
        self._templates[queue] = conditions, template
        return template

    def _header(self, queue: MessageQueue, offset: int, conditions: Conditions) -> PullMessageRequest:
        expression, sys_flag, suspend, version = conditions
        return pull_header(self._group, queue, offset, self._batch, expression, sys_flag, 0, suspend, version)
