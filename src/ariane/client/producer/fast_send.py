"""The first attempt of a send, made in one step when route and connection are known: the path of nearly every message.

The header is a text in which only time, flags, properties and opaque change from message to message. The attempt of a
coroutine waits at a future of the loop. A thread waits on a connection of its own, or lets the loop send the requests
of many threads together; no coroutine and no task is made for it.
"""

import asyncio
import threading
from collections import deque
from typing import Final

import msgspec

from ariane.client.connect.instance import Instance
from ariane.client.connect.refusals import refusal
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.outgoing import Packer, checked_properties, fixed_fields
from ariane.client.producer.queue_choice import QueueChooser
from ariane.client.results import STORED, SendResult
from ariane.errors import ProtocolError, RequestTimeout
from ariane.message import (
    DEFAULT_REGION,
    DELIVER_TIME,
    MESSAGE_TYPE,
    MSG_REGION,
    RETRY_PREFIX,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    Message,
    MessageQueue,
)
from ariane.protocol.codes import VERSION_4_9_7, RequestCode
from ariane.protocol.command import JSON, Command
from ariane.protocol.frame_head import framed
from ariane.protocol.native import mypyc_attr
from ariane.remoting.blocking import ExclusiveConnection
from ariane.remoting.connection import Connection

_MAX_HEADS: Final = 10_000
_MAX_BODY: Final = 1 << 16  # beyond that, joining header and body would copy too much
_PECULIAR: Final = frozenset({DELIVER_TIME, MESSAGE_TYPE, TRANSACTION_PREPARED})  # properties of the general path
_json: Final = msgspec.json.Encoder().encode


@mypyc_attr(acyclic=True)  # many are in flight, and none refers to itself
class Attempt:
    """An encoded message, and where it goes."""

    __slots__ = ("_connection", "_data", "_opaque", "message_id", "queue", "started", "timeout")

    def __init__(
        self,
        queue: MessageQueue,
        message_id: str,
        connection: Connection,
        data: bytes,
        opaque: int,
        started: float,
        timeout: float,
    ) -> None:
        self.queue = queue
        self.message_id = message_id
        self.started = started
        self.timeout = timeout
        self._connection = connection
        self._data = data
        self._opaque = opaque

    def send(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Command]:
        """Send it in the loop's thread; the future is the response."""
        future: asyncio.Future[Command] = loop.create_future()
        self._connection.submit_encoded(self._data, self._opaque, self.timeout, future)
        return future

    def submit(self, answer: "ThreadAnswer") -> None:
        """Send it in the loop's thread for another one."""
        self._connection.submit_encoded(self._data, self._opaque, self.timeout, answer)

    def ask(self, connection: ExclusiveConnection) -> Command:
        """Send it in the caller's thread, on a connection that is taken, and wait for the response."""
        return connection.ask(self._data, self._opaque, self.timeout)

    def forget(self) -> None:
        """The response is not wanted any more."""
        self._connection.forget(self._opaque)

    def close_if_silent(self) -> None:
        """Close the connection after a time-out in which the peer sent nothing: it may be gone."""
        if self._connection.last_read < self.started:
            self._connection.close(f"silent for {self.timeout:g} s")

    @property
    def address(self) -> str:
        """The address of the broker."""
        return self._connection.address

    def result(self, response: Command) -> SendResult:
        """The result of a stored message; BrokerRefused when the response says that it is not stored."""
        code = RequestCode.SEND_MESSAGE_V2
        return send_result(code, self.message_id, (), self.queue, self._connection.address, response)


class ThreadAnswer:
    """The response that a thread waits for. A lock is the cheapest thing to wait on."""

    __slots__ = ("_error", "_gate", "_response")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._response: Command | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether it has come."""
        return self._response is not None or self._error is not None

    def set_result(self, result: Command, /) -> None:
        """Wake the thread with the response."""
        self._response = result
        self._gate.release()

    def set_exception(self, exception: BaseException, /) -> None:
        """Wake the thread with an error."""
        self._error = exception
        self._gate.release()

    def wait(self) -> Command:
        """Wait for the response, in the thread that wants it."""
        self._gate.acquire()
        error, self._error = self._error, None  # break the cycle of an error and its frames
        if error is not None:
            raise error
        assert self._response is not None
        return self._response


class FastSend:
    """Makes the first attempts of one producer. `prepare` and `ask` may be called in any thread."""

    def __init__(
        self, instance: Instance, group: str, options: ProducerOptions, chooser: QueueChooser, packer: Packer
    ) -> None:
        self._routes = instance.routes
        self._remoting = instance.remoting
        self._clock = instance.env.clock
        self._chooser = chooser
        self._packer = packer
        self._fixed = fixed_fields(group, options)
        self._heads: dict[tuple[str, str, int], str] = {}
        self._exclusive: dict[str, ExclusiveConnection] = {}
        self._may_block = options.tls is None
        self._connect_timeout = options.connect_timeout
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Attempt, ThreadAnswer]] = deque()  # attempts of threads that the loop shall send
        self._woken = False
        self._threads: set[ThreadAnswer] = set()  # of each thread that waits for the loop
        self.possible = not (options.binary_headers or options.vip_channel or options.namespace or chooser.takes_notes)
        """Whether attempts may be made this way; false when hooks or the queue choice must see each one."""

    def prepare(self, message: Message, timeout: float) -> Attempt | None:
        """Choose a queue and encode the request; None when the general path must be used."""
        topic, properties = message.topic, message.properties
        if not self.possible or len(message.body) > _MAX_BODY or topic.startswith(RETRY_PREFIX):
            return None
        route = self._routes.known(topic)
        if route is None or not route.write_queues or (properties and not _PECULIAR.isdisjoint(properties)):
            return None
        queue = self._chooser.choose(route, None)
        address = self._routes.master(queue.broker_name)
        connection = None if address is None else self._remoting.clear_connection(address)
        if connection is None:
            return None
        opaque: int = connection.next_opaque()
        body, sys_flag = self._packer.compressed(message.body)
        now = self._clock.now_ms()
        key = (topic, queue.broker_name, queue.queue_id)
        head = self._heads.get(key) or self._head(key)
        message_id, text = self._properties(properties, now)
        header = f'{head}{sys_flag}","g":"{now}","h":"{message.flag}","i":{text}}},"opaque":{opaque}}}'.encode()
        data = framed(header, JSON, len(body)) + body
        return Attempt(queue, message_id, connection, data, opaque, self._clock.monotonic(), timeout)

    def ask(self, attempt: Attempt) -> Command:
        """Send an attempt and wait for the response in the caller's thread: RequestTimeout or SendFailed without."""
        if not self._threads:  # with several threads the loop does better: it sends their requests together
            exclusive = self._exclusive_connection(attempt.address)
            if exclusive is not None and exclusive.take():
                return attempt.ask(exclusive)
        answer = ThreadAnswer()
        self._threads.add(answer)
        self._waiting.append((attempt, answer))
        if not self._woken:  # one wake-up for all threads until the loop runs
            self._woken = True
            self._loop.call_soon_threadsafe(self._send_waiting)
        try:
            return answer.wait()
        except RequestTimeout:
            self._loop.call_soon_threadsafe(attempt.close_if_silent)
            raise
        except BaseException:  # Ctrl-C, or a test's time limit
            self._loop.call_soon_threadsafe(attempt.forget)
            raise
        finally:
            self._threads.discard(answer)

    def _send_waiting(self) -> None:
        self._woken = False  # first, so that an attempt from now on wakes the loop again
        while self._waiting:
            attempt, answer = self._waiting.popleft()
            attempt.submit(answer)

    def close(self) -> None:
        """Prepare no more attempts, and close the connections of threads."""
        self.possible = self._may_block = False
        for connection in list(self._exclusive.values()):
            connection.close()

    def _exclusive_connection(self, address: str) -> ExclusiveConnection | None:
        if not self._may_block:
            return None
        found = self._exclusive.get(address)
        if found is None:
            made = ExclusiveConnection(address, self._clock, self._connect_timeout)
            found = self._exclusive.setdefault(address, made)
        return found

    def _properties(self, properties: dict[str, str], now: int) -> tuple[str, str]:
        """The id of a message, and its property string as JSON; an id that is generated here needs no escapes."""
        if not properties:
            message_id = self._packer.ids.make(now)
            return message_id, f'"{UNIQUE_KEY}\\u0001{message_id}"'
        given = properties.get(UNIQUE_KEY)
        message_id = given or self._packer.ids.make(now)
        text = checked_properties({**properties, UNIQUE_KEY: message_id})
        return message_id, _json(text).decode()

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


def send_result(
    code: RequestCode,
    message_id: str,
    batch_ids: tuple[str, ...],
    queue: MessageQueue,
    address: str,
    response: Command,
) -> SendResult:
    """The result of a stored message or batch; BrokerRefused when the response says that it is not stored."""
    status = STORED.get(response.code)
    if status is None:
        raise refusal(address, code, response)
    fields = response.fields
    try:
        queue_id, queue_offset, offset_id = int(fields["queueId"]), int(fields["queueOffset"]), fields["msgId"]
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"the response to a send lacks a field: {fields} ({error})") from None
    if queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
    return SendResult(
        status,
        message_id,
        queue,
        queue_offset,
        offset_id,
        fields.get("transactionId"),
        fields.get(MSG_REGION) or DEFAULT_REGION,
        fields.get(TRACE_ON) != "false",
        batch_ids,
    )
