"""Send the messages of one task: in batches, with several requests in flight.

A request that fails is sent again, elsewhere if it may go elsewhere, with the same keys. Rows with a hash key keep
their order: a queue's next request waits for the answer to the one before.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ariane.client.connect.refusals import refusal
from ariane.client.producer.outgoing import ITEM_OVERHEAD
from ariane.client.producer.queue_choice import by_hash
from ariane.client.results import STORED
from ariane.errors import ArianeError, BrokerRefused, RemotingError, SendError
from ariane.message import AUTO_CREATE_TOPIC, Message, MessageQueue
from ariane.protocol.batch import BatchItem, encode_batch
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import SendMessageRequestV2, SendMessageResponse
from ariane.protocol.units import TRANSACTION_PREPARED
from ariane.spark.broker_connection import CONNECTIONS, BrokerConnection, Connections
from ariane.spark.cluster import Cluster
from ariane.spark.sink.options import SinkOptions
from ariane.spark.sink.rows import Row

FINAL: Final = frozenset((ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_PERMISSION))
_PAUSE: Final = 0.2


@dataclass
class Request:
    """Rows of one topic in one request."""

    topic: str
    rows: list[Row]
    queue: MessageQueue | None  # fixed by a hash key
    half: bool = False
    tries: int = 0
    where: MessageQueue | None = None
    born: int = 0

    def body(self) -> tuple[bytes, str]:
        """Body and property string: of the message itself, or of a batch."""
        if self.is_batch:
            return encode_batch([BatchItem(0, row.body, row.encoded) for row in self.rows]), ""
        return self.rows[0].body, self.rows[0].encoded.decode()

    @property
    def is_batch(self) -> bool:
        return not self.half and not self.rows[0].is_delayed


Stored = Callable[[Request, SendMessageResponse], None]


@dataclass
class SinkSender:
    """Sends rows; `flush` returns when all are stored. `on_stored` is called with each answer."""

    options: SinkOptions
    group: str
    cluster: Cluster
    on_stored: Stored = lambda _request, _answer: None
    turn: int = 0
    half: bool = False
    connections: Connections = CONNECTIONS

    def __post_init__(self) -> None:
        self._open: dict[tuple[str, MessageQueue | None], Request] = {}
        self._sizes: dict[tuple[str, MessageQueue | None], int] = {}
        self._lines: dict[str, _Line] = {}
        self._queues: dict[str, list[MessageQueue]] = {}
        self._sent = 0
        self._began = self.cluster.monotonic()

    def add(self, row: Row) -> None:
        """Add a row; its request is sent when full."""
        self._keep_to_rate()
        queue = None if row.hash_key is None else self._hashed(row)
        if self.half or row.is_delayed:
            self._dispatch(Request(row.topic, [row], queue, half=self.half))
            return
        key = (row.topic, queue)
        own = len(row.body) + len(row.encoded) + ITEM_OVERHEAD
        size = self._sizes.get(key, 0) + own
        if key in self._open and size > self.options.batch_bytes:
            self._dispatch(self._open.pop(key))
            size = own
        self._open.setdefault(key, Request(row.topic, [], queue)).rows.append(row)
        self._sizes[key] = size

    def _keep_to_rate(self) -> None:
        self._sent += 1
        if self.options.rate is not None:
            ahead = self._sent / self.options.rate - (self.cluster.monotonic() - self._began)
            if ahead > _PAUSE:
                self.cluster.pause(ahead)

    def flush(self) -> None:
        """Send the rest, and wait until everything is stored."""
        for key in list(self._open):
            self._dispatch(self._open.pop(key))
        while any(line.waiting for line in self._lines.values()):
            for line in list(self._lines.values()):
                while line.waiting:
                    self._settle(line)

    def close(self) -> None:
        """Return the connections; close those with pending answers."""
        for line in self._lines.values():
            line.leave()
        self._lines.clear()

    def _hashed(self, row: Row) -> MessageQueue:
        assert row.hash_key is not None
        return by_hash(row.hash_key)(self._writable(row.topic), Message(row.topic, b""))

    def _writable(self, topic: str) -> list[MessageQueue]:
        if topic not in self._queues:
            self._queues[topic] = self.cluster.write_queues(topic)
        return self._queues[topic]

    def _dispatch(self, request: Request) -> None:
        """Send a request, as soon as there is room."""
        queues = self._writable(request.topic)
        self.turn += 1
        request.where = request.queue or queues[self.turn % len(queues)]
        try:
            line = self._line_with_room(request)
            line.send(request, self.group, self.cluster.now_ms())
        except RemotingError as error:
            for lost in (*self._lost(request.where.broker_name, error), request):
                self._again(lost, error)

    def _lost(self, broker_name: str, error: ArianeError) -> list[Request]:
        """The pending requests of a connection that broke."""
        line = self._lines.get(broker_name)
        return line.failed(error) if line is not None and line.broken else []

    def _line_with_room(self, request: Request) -> "_Line":
        assert request.where is not None
        while True:  # a line may be replaced by another while its answers are awaited
            line = self._line(request.where.broker_name)
            if len(line.waiting) < self.options.window and not (request.queue and line.is_busy(request.queue)):
                return line
            self._settle(line)

    def _line(self, broker_name: str) -> "_Line":
        line = self._lines.get(broker_name)
        if line is None:
            line = self._lines[broker_name] = _Line(self.options, self.cluster.master(broker_name), self.connections)
        return line

    def _settle(self, line: "_Line") -> None:
        """Wait for one answer; resend what was refused or lost."""
        try:
            request, answer = line.receive()
        except (RemotingError, BrokerRefused) as error:
            for request in line.failed(error):
                self._again(request, error)
            return
        self.on_stored(request, answer)

    def _again(self, request: Request, error: ArianeError) -> None:
        """Resend a request. Callers pass requests of a lost connection oldest first, which keeps their order."""
        request.tries += 1
        if request.where is not None and isinstance(error, RemotingError):
            self._forget(request.where.broker_name)
        final = isinstance(error, BrokerRefused) and error.code in FINAL
        if final or request.tries > self.options.retries:
            raise SendError(f"{len(request.rows)} messages to {request.topic} were not stored: {error}", (error,))
        threading.Event().wait(_PAUSE * request.tries)
        self._queues[request.topic] = self.cluster.write_queues(request.topic, fresh=True)
        self._dispatch(request)

    def _forget(self, broker_name: str) -> None:
        line = self._lines.get(broker_name)
        if line is not None and not line.waiting:
            line.leave()
            del self._lines[broker_name]


class _Line:
    """One connection to a broker and the requests on it."""

    def __init__(self, options: SinkOptions, address: str, connections: Connections) -> None:
        self._options = options
        self._connections = connections
        self._connection: BrokerConnection = connections.take(address, options.access, options.timeout)
        self.waiting: deque[tuple[int, Request]] = deque()
        self.broken = False
        self._refused: Request | None = None

    def is_busy(self, queue: MessageQueue) -> bool:
        return any(request.queue == queue for _, request in self.waiting)

    def send(self, request: Request, group: str, now_ms: int) -> None:
        assert request.where is not None
        body, properties = request.body()
        request.born = request.born or now_ms
        flag = TRANSACTION_PREPARED if request.half else 0
        header = SendMessageRequestV2(
            group, request.topic, AUTO_CREATE_TOPIC, 4, request.where.queue_id, flag, request.born, 0,
            properties, 0, False, request.is_batch, None, request.where.broker_name,
        )  # fmt: skip
        code = RequestCode.SEND_BATCH_MESSAGE if request.is_batch else RequestCode.SEND_MESSAGE_V2
        try:
            number = self._connection.send(code, header, body, self._options.timeout)
        except RemotingError:
            self.broken = True
            raise
        self.waiting.append((number, request))

    def receive(self) -> tuple[Request, SendMessageResponse]:
        """The next answer. After BrokerRefused or RemotingError, `failed` has the affected requests."""
        try:
            response = self._connection.receive(self._options.timeout)
        except RemotingError:
            self.broken = True
            raise
        request = next(request for number, request in self.waiting if number == response.command.opaque)
        self.waiting = deque(item for item in self.waiting if item[1] is not request)
        if response.command.code not in STORED:
            self._refused = request
            raise refusal(self._connection.address, response.request.code, response.command)
        return request, SendMessageResponse.parse(response.command.fields)

    def failed(self, error: ArianeError) -> list[Request]:
        """The requests to send again: the refused one, or all of a lost connection."""
        if isinstance(error, BrokerRefused) and self._refused is not None:
            refused, self._refused = self._refused, None
            return [refused]
        lost = [request for _, request in self.waiting]
        self.waiting.clear()
        return lost

    def leave(self) -> None:
        if self.waiting or self.broken:
            self._connection.close()
        else:
            self._connections.give(self._connection, self._options.access)
