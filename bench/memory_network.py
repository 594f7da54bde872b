"""A name server and a broker without sockets: an event loop whose connections answer from prepared bytes.

What a client costs can then be counted: each run does exactly the same, and nothing but the client does much.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

from ariane.protocol.bodies import BrokerData, ConsumerIdList, HeartbeatData, QueueData, TopicRouteData
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.frame import FrameDecoder, encode
from ariane.protocol.headers import PullMessageRequest
from ariane.protocol.units import Unit, encode_unit

NAME_SERVER, BROKER = "127.0.0.1:9876", "127.0.0.1:10911"
PULL = 32  # messages of an answer to a pull
_HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


class MemoryLoop(asyncio.SelectorEventLoop):
    """An event loop on which every connection leads to a `Peer` of the same process."""

    def __init__(self, bodies: list[bytes]) -> None:
        super().__init__(selectors.SelectSelector())
        self.bodies = bodies
        self.client_id = ""

    async def create_connection(self, factory: Callable[[], Any], *_: Any, **__: Any) -> Any:  # type: ignore[override]
        """Connect to a peer; it answers on the next turn of the loop."""
        protocol = factory()
        transport = Peer(self, protocol)
        protocol.connection_made(transport)
        return transport, protocol


class Peer:
    """The transport of a client's connection, and what is at its other end."""

    def __init__(self, loop: MemoryLoop, protocol: Any) -> None:
        self._loop = loop
        self._protocol = protocol
        self._decoder = FrameDecoder()
        self._sent = 0

    def write(self, data: bytes) -> None:
        """Answer all requests at hand in one chunk."""
        self._decoder.feed(data)
        answers = [answer for command in self._decoder.commands() if (answer := self._answer(command)) is not None]
        if answers:
            self._loop.call_soon(self._protocol.data_received, b"".join(answers))

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def _answer(self, request: Command) -> bytes | None:
        code = request.code
        if code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            return self._stored(request)
        if code == RequestCode.PULL_MESSAGE:
            return self._pulled(request)
        if request.is_oneway:
            return None
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return encode(request.reply(body=_route().encode()))
        if code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return encode(request.reply(body=ConsumerIdList([self._loop.client_id]).encode()))
        if code == RequestCode.HEART_BEAT:
            self._loop.client_id = HeartbeatData.decode(request.body).client_id
        if code == RequestCode.QUERY_CONSUMER_OFFSET:
            return encode(request.reply(ResponseCode.QUERY_NOT_FOUND))
        return encode(request.reply())

    def _stored(self, request: Command) -> bytes:
        self._sent += 1
        fields = {"msgId": f"7F00000100002A9F{self._sent:016X}", "queueId": "0", "queueOffset": str(self._sent)}
        return encode(request.reply(fields=fields | {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}))

    def _pulled(self, request: Command) -> bytes | None:
        asked = request.parsed(PullMessageRequest)
        end = len(self._loop.bodies) * PULL
        if asked.queue_offset >= end or asked.topic.startswith("%"):
            return None  # held, as a long poll is
        fields = {
            "suggestWhichBrokerId": "0", "nextBeginOffset": str(asked.queue_offset + PULL), "minOffset": "0",
            "maxOffset": str(end),
        }  # fmt: skip
        return encode(request.reply(fields=fields, body=self._loop.bodies[asked.queue_offset // PULL]))

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 50000) if name in ("peername", "sockname") else None

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close


def _route() -> TopicRouteData:
    return TopicRouteData(queue_datas=[QueueData("b", 1, 1, 6, 0)], broker_datas=[BrokerData("c", "b", {0: BROKER})])


def pull_body(first: int) -> bytes:
    """The messages of one answer to a pull."""
    units = []
    for offset in range(first, first + PULL):
        properties = f"UNIQ_KEY\x017F0000010A2F18B4AAC2{offset:012X}\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster"
        unit = Unit(
            b"T", b"x" * 128, properties.encode(), queue_offset=offset, physical_offset=offset * 300,
            born_time=1_700_000_000_000, born_host=_HOST, store_time=1_700_000_000_001, store_host=_HOST,
        )  # fmt: skip
        units.append(encode_unit(unit))
    return b"".join(units)
