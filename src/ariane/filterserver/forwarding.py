"""PULL_MESSAGE at a filter server: passed to the broker as it came, and the messages filtered on the way back.

The broker sees the consumer's own signature and decides whether it may pull; a filter server has no rights to lend.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from struct import Struct
from typing import Final

from ariane.env import Clock
from ariane.errors import ProtocolError, RemotingError, ResponseError
from ariane.filter import GuardedFilter
from ariane.filterserver.filters import GroupFilters, missing_module
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fast.pulling import Pulling, pulling_in
from ariane.protocol.headers.consume import CLASS_FILTER
from ariane.remoting import Client, Connection, TlsClient

MARGIN: Final = 10.0  # seconds beyond the time for which a broker may hold a pull
LONGEST_HOLD: Final = 60.0
_SIZE: Final = Struct(">i")
_NEXT: Final = "nextBeginOffset"


class Forwarding:
    """Answers pulls. Each consumer has a connection of its own to the broker, whose limits count by connection."""

    def __init__(
        self,
        broker: str,
        filters: GroupFilters,
        clock: Clock,
        tls: TlsClient | None,
        refresh: Callable[[], Awaitable[bool]],
    ) -> None:
        """`refresh` asks the broker which modules it has; False when this server is not registered there."""
        self._broker = broker
        self._filters = filters
        self._clock = clock
        self._tls = tls
        self._refresh = refresh
        self._clients: dict[Connection, Client] = {}
        self.registered = False
        """Set by the registration: a server that the broker does not admit forwards nothing."""
        self.pulled = 0
        self.delivered = 0
        """Messages that came from the broker, and those that went on to consumers."""

    async def pull(self, connection: Connection, request: Command) -> Command:
        """Forward a pull, and filter the messages of its answer."""
        pull = pulling_in(request)
        if not pull.kind.sys_flag & CLASS_FILTER:
            remark = "this is a filter server: pull from the broker, or with the class filter flag"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        if not self.registered and not await self._refresh():
            raise ResponseError(ResponseCode.SYSTEM_BUSY, f"this filter server is not registered with {self._broker}")
        if not self._filters.knows(pull.kind) and not (await self._refresh() and self._filters.knows(pull.kind)):
            raise missing_module(pull.kind.consumer_group, pull.kind.topic, pull.kind.subscription or "")
        answer = await self._forward(connection, request, pull)
        if answer.code != ResponseCode.SUCCESS:
            return request.reply(answer.code, answer.fields, remark=answer.remark or "")
        return self._filtered(request, pull, answer, self._filters.of(pull.kind))

    async def connection_closed(self, connection: Connection) -> None:
        """Close a consumer's connection to the broker, and with it the pulls that the broker holds."""
        client = self._clients.pop(connection, None)
        if client is not None:
            await client.close()

    async def close(self) -> None:
        """Close all connections to the broker."""
        for connection in list(self._clients):
            await self.connection_closed(connection)

    async def _forward(self, connection: Connection, request: Command, pull: Pulling) -> Command:
        client = self._clients.get(connection)
        if client is None:
            client = self._clients[connection] = Client(clock=self._clock, tls=self._tls, name="filter server")
        forwarded = Command(
            request.code,
            request.wire_fields(),
            request.body,
            language=request.language,
            version=request.version,
            serialization=request.serialization,
        )
        hold = min(max(pull.kind.suspend_timeout_millis / 1000, 0.0), LONGEST_HOLD)
        try:
            return await client.request(self._broker, forwarded, hold + MARGIN)
        except RemotingError as error:
            remark = f"the filter server cannot reach its broker: {error}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark) from None

    def _filtered(self, request: Command, pull: Pulling, answer: Command, filter: GuardedFilter) -> Command:
        """Only the messages that match. From where the filter stopped, the next pull goes on."""
        kept: list[memoryview] = []
        for unit in units(answer.body):
            self.pulled += 1
            if filter.matches_unit(unit):
                kept.append(unit)
        self.delivered += len(kept)
        fields = dict(answer.fields)
        stop = filter.take_stop()
        if stop is not None:
            fields[_NEXT] = str(stop.offset)
            if not kept and stop.offset <= pull.queue_offset:
                remark = stop.remark(pull.kind.consumer_group, pull.kind.topic, pull.queue_id)
                raise ResponseError(ResponseCode.SYSTEM_ERROR if stop.failure else ResponseCode.SYSTEM_BUSY, remark)
        if not kept:
            return request.reply(ResponseCode.PULL_RETRY_IMMEDIATELY, fields, remark="NO_MATCHED_MESSAGE")
        return request.reply(ResponseCode.SUCCESS, fields, b"".join(kept), remark=answer.remark or "")


def units(body: bytes) -> Iterator[memoryview]:
    """The stored messages of a pull's answer; ProtocolError when their sizes do not add up."""
    view, at = memoryview(body), 0
    while at < len(view):
        size = _SIZE.unpack_from(view, at)[0] if at + _SIZE.size <= len(view) else 0
        if size < _SIZE.size or at + size > len(view):
            raise ProtocolError(f"the broker's answer has no whole message at byte {at}")
        yield view[at : at + size]
        at += size
