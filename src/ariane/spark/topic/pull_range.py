"""Pull a range of a queue, several requests ahead.

A broker limits the size of an answer (Apache's: 32 messages or 256 KiB from memory), so several pulls are in flight:
the range is cut into spans of the size that the broker was seen to return. The rest of a short answer is requested
again. With a filter the start of the next span is unknown, so one pull is in flight.

A master that is asked for messages which are no longer in its memory suggests its slave. The rest of the slice is read
there; where the slave lacks messages, the master is asked again and stays.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ariane.client.connect.refusals import refusal
from ariane.client.options import text_and_kind
from ariane.env import Clock, SystemClock
from ariane.errors import ArianeError, RemotingError, StoreError
from ariane.message import MessageQueue
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import PullMessageRequest, PullMessageResponse
from ariane.protocol.headers.consume import SUBSCRIPTION
from ariane.spark.broker_connection import CONNECTIONS, BrokerConnection, Connections, Response
from ariane.spark.topic.options import TopicOptions

WINDOW: Final = 4
_GROW_AFTER: Final = 16  # full answers before a larger pull is tried; doubled after each pull that was too large
_PAUSE: Final = 0.05
_MASTER: Final = 0  # here, because `client.connect.routes` imports asyncio, which tasks do without
_SLAVE_PATIENCE: Final = 1.0  # seconds without a message from a slave that was suggested


@dataclass(frozen=True)
class QueueSlice:
    """Offsets [start, stop) of a queue, and the addresses of its broker, master first."""

    queue: MessageQueue
    start: int
    stop: int
    addresses: tuple[str, ...]


class _SlaveSuggested(Exception):
    """The master suggests to read from a slave."""


@dataclass
class _Span:
    at: int
    stop: int
    number: int = 0  # of its request
    answer: Response | None = None


@dataclass
class SlicePuller:
    """Pulls one slice. `refresh` looks the broker's addresses up again when none of the known ones works."""

    part: QueueSlice
    options: TopicOptions
    refresh: Callable[[], tuple[str, ...]]
    clock: Clock = field(default_factory=SystemClock)
    connections: Connections = CONNECTIONS

    def __post_init__(self) -> None:
        self._at = self.part.start  # everything before was returned
        self._ahead = self.part.start  # everything before was requested
        self._size = self.options.pull_batch
        self._full = 0
        self._patience = _GROW_AFTER
        self._spans: deque[_Span] = deque()
        self._addresses = list(self.part.addresses)
        self._progress = self.clock.monotonic()
        self._sizes_known = False
        self._at_slave = False  # because the master suggested it
        self._may_leave = True  # the suggestion is followed once
        self._slave_suggested = False

    def bodies(self) -> Iterator[memoryview]:
        """Yield the units of the slice in queue order, one answer at a time."""
        while self._at < self.part.stop:
            try:
                yield from self._from_some_broker()
            except _SlaveSuggested:
                self._ahead = self._at
                self._addresses.append(self._addresses.pop(0))
                self._at_slave, self._may_leave = True, False
            except RemotingError as error:
                self._next_broker(error)

    def _from_some_broker(self) -> Iterator[memoryview]:
        if not self._addresses:
            self._addresses = list(self.refresh())
        if not self._addresses:
            raise RemotingError(f"broker {self.part.queue.broker_name} is not registered with the name servers now")
        connection = self.connections.take(self._addresses[0], self.options.access, self.options.pull_timeout)
        clean = False
        try:
            yield from self._through(connection)
            clean = not self._spans
        finally:
            self._spans.clear()
            if clean:
                self.connections.give(connection, self.options.access)
            else:
                connection.close()

    def _next_broker(self, error: ArianeError) -> None:
        """Switch to the broker's next address; after the last, refresh them, until the time is used up."""
        self._ahead = self._at
        self._at_slave = False
        del self._addresses[:1]
        if self.clock.monotonic() - self._progress > self.options.pull_timeout:
            raise RemotingError(
                f"{name_of(self.part.queue)}: nothing came for {self.options.pull_timeout:g} s (pullTimeoutMs): {error}"
            ) from error
        if not self._addresses:
            threading.Event().wait(_PAUSE)

    def _through(self, connection: BrokerConnection) -> Iterator[memoryview]:
        while self._at < self.part.stop:
            self._ask_ahead(connection)
            head = self._spans[0]
            if head.answer is None:
                self._receive(connection)
                continue
            answer, head.answer = head.answer, None
            reached = self._take(answer.command)
            self._continue(connection, head, reached)
            if answer.body:
                yield answer.body
                self._progress = self.clock.monotonic()  # the consumer's time does not count
            if self._slave_suggested and self._at < self.part.stop:
                raise _SlaveSuggested

    def _ask_ahead(self, connection: BrokerConnection) -> None:
        """Keep a window of requests in flight; the first goes alone, to learn how much the broker returns."""
        window = WINDOW if self._sizes_known and not self.options.filters else 1
        while len(self._spans) < window and self._ahead < self.part.stop:
            stop = self.part.stop if self.options.filters else min(self._ahead + self._size, self.part.stop)
            span = _Span(self._ahead, stop)
            self._spans.append(span)
            self._ask(connection, span)
            self._ahead = stop

    def _ask(self, connection: BrokerConnection, span: _Span) -> None:
        expression, kind = text_and_kind(self.options.expression)
        queue = self.part.queue
        header = PullMessageRequest(
            self.options.group, queue.topic, queue.queue_id, span.at, min(span.stop - span.at, self._size),
            SUBSCRIPTION, 0, 0, 0, expression, kind,
        )  # fmt: skip
        span.number = connection.send(RequestCode.PULL_MESSAGE, header, timeout=self.options.pull_timeout)

    def _receive(self, connection: BrokerConnection) -> None:
        response = connection.receive(self.options.pull_timeout)
        if response.command.code not in _ANSWERS:
            refused = refusal(connection.address, response.request.code, response.command)
            raise RemotingError(str(refused)) if response.command.code in _PASSING else refused
        for span in self._spans:
            if span.number == response.command.opaque:
                span.answer = response

    def _continue(self, connection: BrokerConnection, head: _Span, reached: int) -> None:
        """Request the rest of a short first answer before that answer is decoded."""
        self._learn(head, reached)
        if reached > head.at:
            self._progress = self.clock.monotonic()
        elif self.clock.monotonic() - self._progress > self._wait:
            raise RemotingError("the broker answers, but has nothing there")
        else:
            threading.Event().wait(_PAUSE)  # a slave that lags
        self._at = max(self._at, min(reached, self.part.stop))
        if reached >= head.stop:
            self._spans.popleft()
            self._skip_to(reached)
        else:
            head.at = reached
            self._ask(connection, head)

    @property
    def _wait(self) -> float:
        return _SLAVE_PATIENCE if self._at_slave else self.options.pull_timeout

    def _skip_to(self, reached: int) -> None:
        """A broker skips past the end of a span where messages expired; the gap is not requested again."""
        self._ahead = max(self._ahead, min(reached, self.part.stop))

    def _learn(self, span: _Span, reached: int) -> None:
        given = reached - span.at
        if 0 < given < min(span.stop - span.at, self._size):
            self._size, self._full = given - given // 64, 0  # a byte limit gives varying counts
            self._patience *= 2  # a second request for the rest costs a copy
        elif given > 0:
            self._full += 1
        if self._full >= self._patience:
            self._size, self._full = min(self._size * 2, self.options.pull_batch), 0
        self._sizes_known = self._sizes_known or given > 0

    def _take(self, answer: Command) -> int:
        """The offset that an answer reaches; expired messages before it are skipped where that is allowed."""
        found = PullMessageResponse.parse(answer.fields)
        elsewhere = found.suggest_which_broker_id != _MASTER and self.part.addresses[:1] == tuple(self._addresses[:1])
        self._slave_suggested = self._may_leave and elsewhere and len(self._addresses) > 1
        if answer.code != ResponseCode.PULL_OFFSET_MOVED:
            return found.next_begin_offset
        if self._at_slave:
            raise RemotingError("the slave does not have these messages")
        if self.options.fail:
            raise lost(self.part.queue, self._at, found.min_offset, found.max_offset)
        return found.min_offset if self._at < found.min_offset else self.part.stop


_ANSWERS = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
)
_PASSING = frozenset((ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE))


def name_of(queue: MessageQueue) -> str:
    """The name of a queue in error texts."""
    return f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"


def lost(queue: MessageQueue, wanted: int, first: int, end: int) -> StoreError:
    """The error for offsets that a broker does not have."""
    return StoreError(
        f"{name_of(queue)}: offset {wanted} is not there, the broker has {first} to {end}: messages expired before "
        "they were read, the topic was deleted and created again, or the broker lost its last messages. "
        "failOnDataLoss=false goes on with what is there"
    )
