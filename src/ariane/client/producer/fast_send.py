"""The first attempt of a send, encoded at once when route and connection are known: the path of nearly every message.

The header is a text in which only time, flags, properties and opaque change from message to message.
"""

from typing import Final

import msgspec

from ariane.client.connect.instance import Instance
from ariane.client.connect.pending_request import LoopThread, PendingRequest
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.outgoing import Outgoing, checked_properties, fixed_fields
from ariane.client.producer.queue_choice import QueueChooser
from ariane.message import UNIQUE_KEY, MessageQueue
from ariane.protocol.codes import VERSION_4_9_7, RequestCode
from ariane.protocol.command import JSON
from ariane.protocol.frame_head import framed
from ariane.remoting.blocking import ExclusiveConnection

_MAX_HEADS: Final = 10_000
_MAX_BODY: Final = 1 << 16  # beyond that, joining header and body would copy too much
_json: Final = msgspec.json.Encoder().encode


class FastAttempt:
    """An encoded message and the queue it goes to."""

    __slots__ = ("queue", "request")

    def __init__(self, queue: MessageQueue, request: PendingRequest) -> None:
        self.queue = queue
        self.request = request


class FastSend:
    """Prepares first attempts for one producer. `prepare` may be called in any thread."""

    def __init__(self, instance: Instance, group: str, options: ProducerOptions, chooser: QueueChooser) -> None:
        self._routes = instance.routes
        self._remoting = instance.remoting
        self._clock = instance.env.clock
        self._chooser = chooser
        self._fixed = fixed_fields(group, options)
        self._heads: dict[tuple[str, str, int], str] = {}
        self._blocking: dict[str, ExclusiveConnection] = {}
        self._may_block = options.tls is None
        self._connect_timeout = options.connect_timeout
        self.loop_thread = LoopThread()
        self.possible = not options.binary_headers and not options.vip_channel and not chooser.takes_notes
        """Whether attempts may be made this way; false when hooks or the queue choice must see each one."""

    def prepare(self, out: Outgoing, started: float, timeout: float) -> FastAttempt | None:
        """Choose a queue and encode the request; None when the general path must be used."""
        topic = out.message.topic
        route = self._routes.known(topic)
        if route is None or not route.write_queues or out.extra or len(out.body) > _MAX_BODY:
            return None
        if out.code is not RequestCode.SEND_MESSAGE_V2:
            return None
        queue = self._chooser.choose(route, None)
        address = self._routes.master(queue.broker_name)
        connection = None if address is None else self._remoting.clear_connection(address)
        if connection is None:
            return None
        opaque = connection.next_opaque()
        data = self._encode(out, queue, opaque)
        blocking = self._blocking_connection(connection.address)
        return FastAttempt(
            queue, PendingRequest(connection, blocking, self.loop_thread, data, opaque, started, timeout)
        )

    def _blocking_connection(self, address: str) -> ExclusiveConnection | None:
        if not self._may_block:
            return None
        found = self._blocking.get(address)
        if found is None:
            found = self._blocking.setdefault(address, ExclusiveConnection(address, self._clock, self._connect_timeout))
        return found

    def close(self) -> None:
        """Prepare no more attempts, and close the blocking connections."""
        self.possible = self._may_block = False
        for connection in list(self._blocking.values()):
            connection.close()

    def _encode(self, out: Outgoing, queue: MessageQueue, opaque: int) -> bytes:
        key = (queue.topic, queue.broker_name, queue.queue_id)
        head = self._heads.get(key) or self._head(key)
        now, message = self._clock.now_ms(), out.message
        text = f'{head}{out.sys_flag}","g":"{now}","h":"{message.flag}","i":{_properties(out)}}},"opaque":{opaque}}}'
        header = text.encode()
        return framed(header, JSON, len(out.body)) + out.body

    def _head(self, key: tuple[str, str, int]) -> str:
        topic, broker_name, queue_id = key
        fields = {**self._fixed, "b": topic, "e": str(queue_id), "m": "false", "n": broker_name}
        command = {
            "code": int(RequestCode.SEND_MESSAGE_V2),
            "flag": 0,
            "language": "PYTHON",
            "serializeTypeCurrentRPC": "JSON",
            "version": VERSION_4_9_7,
            "extFields": fields,
        }
        head = _json(command).decode().removesuffix("}}") + ',"f":"'
        if len(self._heads) < _MAX_HEADS:
            self._heads[key] = head
        return head


def _properties(out: Outgoing) -> str:
    """The property string as JSON; an id that was generated here needs no escapes."""
    if len(out.properties) == 1 and out.made_id:
        return f'"{UNIQUE_KEY}\\u0001{out.message_id}"'
    return _json(checked_properties(out.properties)).decode()
