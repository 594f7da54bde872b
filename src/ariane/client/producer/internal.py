"""The client's own messages: traces, and messages that a consumer sends to its retry topic."""

from itertools import count

from ariane.client.connect.instance import Instance
from ariane.client.observe.trace import Tracer
from ariane.client.options import ClientOptions
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.outgoing import Packer
from ariane.client.producer.sending import Sender
from ariane.client.results import SendResult
from ariane.message import Message

TRACE_TIMEOUT = 5.0
_numbers = count(1)


class InternalProducer:
    """Sends through the connections of its owner, without the checks and the lifecycle of a user's producer."""

    def __init__(self, instance: Instance, group: str, options: ClientOptions, **changes: float) -> None:
        own = ProducerOptions.of(ClientOptions.of(options, {}), changes)
        self._packer = Packer(own, instance.ids, instance.env.clock)
        self._sender = Sender(instance, group, own, self._packer)
        self._timeout = own.send_timeout

    async def send(self, message: Message, stored_flag: int = 0) -> SendResult:
        """Send to any broker of the topic; `stored_flag` has the compression bits of a body that is already packed."""
        out = self._packer.pack(message)
        if stored_flag:
            out.body, out.sys_flag = message.body, stored_flag
        return await self._sender.send_anywhere(out, self._timeout)


def start_tracer(instance: Instance, options: ClientOptions, topic: str) -> Tracer:
    """A tracer that sends its records by a producer of its own."""
    group = f"_INNER_TRACE_PRODUCER-{next(_numbers)}"
    producer = InternalProducer(instance, group, options, send_timeout=TRACE_TIMEOUT)
    return Tracer(instance.env, instance.tasks, topic, producer.send)
