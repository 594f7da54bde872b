"""The first try of a send, made at once when all that it needs is known: nearly every message goes this way.

The header is a text of which only time, flags, properties and number change from message to message.
"""

from struct import Struct
from typing import Final

import msgspec

from ariane.client.anywhere import Home, Question
from ariane.client.connect.instance import Instance
from ariane.client.options import ProducerOptions
from ariane.client.producer.outgoing import Outgoing, checked_properties, fixed_fields
from ariane.client.producer.queue_choice import QueueChooser
from ariane.message import UNIQUE_KEY, MessageQueue
from ariane.protocol.codes import VERSION_4_9_7, RequestCode
from ariane.remoting.line import Line

_HEAD: Final = Struct(">iI")  # length of what follows, length of the header
_MAX_HEADS: Final = 10_000
_MAX_BODY: Final = 1 << 16  # beyond, joining header and body would copy too much
_json: Final = msgspec.json.Encoder().encode


class FirstTry:
    """A message on its way to a queue."""

    __slots__ = ("question", "queue")

    def __init__(self, queue: MessageQueue, question: Question) -> None:
        self.queue = queue
        self.question = question


class FirstTries:
    """Makes them for one producer. May be called in any thread."""

    def __init__(self, instance: Instance, group: str, options: ProducerOptions, chooser: QueueChooser) -> None:
        self._routes = instance.routes
        self._remoting = instance.remoting
        self._clock = instance.env.clock
        self._chooser = chooser
        self._fixed = fixed_fields(group, options)
        self._heads: dict[tuple[str, str, int], str] = {}
        self._lines: dict[str, Line] = {}
        self._with_lines = options.tls is None
        self._connect_timeout = options.connect_timeout
        self.home = Home()
        self.possible = not options.binary_headers and not options.vip_channel and not chooser.takes_notes
        """Cleared when something must see each try."""

    def make(self, out: Outgoing, started: float, timeout: float) -> FirstTry | None:
        """None when the message must go the long way."""
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
        return FirstTry(
            queue, Question(connection, self._line(connection.address), self.home, data, opaque, started, timeout)
        )

    def _line(self, address: str) -> Line | None:
        if not self._with_lines:
            return None
        line = self._lines.get(address)
        if line is None:
            line = self._lines.setdefault(address, Line(address, self._clock, self._connect_timeout))
        return line

    def close(self) -> None:
        """Make no more of them."""
        self.possible = self._with_lines = False
        for line in list(self._lines.values()):
            line.close()

    def _encode(self, out: Outgoing, queue: MessageQueue, opaque: int) -> bytes:
        key = (queue.topic, queue.broker_name, queue.queue_id)
        head = self._heads.get(key) or self._head(key)
        now, message = self._clock.now_ms(), out.message
        text = f'{head}{out.sys_flag}","g":"{now}","h":"{message.flag}","i":{_properties(out)}}},"opaque":{opaque}}}'
        header = text.encode()
        return _HEAD.pack(4 + len(header) + len(out.body), len(header)) + header + out.body

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
    """The property string as JSON; an id alone, which is made here, needs no escapes."""
    if len(out.properties) == 1 and out.made_id:
        return f'"{UNIQUE_KEY}\\u0001{out.message_id}"'
    return _json(checked_properties(out.properties)).decode()
