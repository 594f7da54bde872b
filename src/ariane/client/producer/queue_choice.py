"""The choice of a queue for a message."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from random import Random
from threading import get_ident

from ariane.client.connect.routes import Route
from ariane.client.producer.broker_faults import ISOLATION_MS, Faults, Latencies
from ariane.client.producer.options import ProducerOptions, QueueChoice
from ariane.env import Clock
from ariane.message import Message, MessageQueue
from ariane.protocol.java import signed32, string_hash

CALLER: ContextVar[int] = ContextVar("ariane_caller", default=0)
"""The thread of the caller: each has its own round robin."""

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses a queue for a message; the queues are sorted by broker and number."""

MAX_CALLERS = 1024


class Turns:
    """Round robin per caller and topic, with a random start."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._turns: dict[tuple[int, str], int] = {}

    def next(self, topic: str) -> int:
        """The next turn of this caller."""
        key = (CALLER.get() or get_ident(), topic)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._random.randrange(1 << 20)
            if len(self._turns) >= MAX_CALLERS:
                self._turns.clear()  # entries of ended threads; starting over is harmless
        self._turns[key] = turn + 1
        return turn


class QueueChooser:
    """Chooses a queue of a route: in turn, not on the broker that just failed, or by latency."""

    def __init__(self, options: ProducerOptions, clock: Clock, random: Random) -> None:
        self._turns = Turns(random)
        self._clock = clock
        self._by_latency = options.queue_choice is QueueChoice.MIN_LATENCY
        self._with_faults = options.latency_faults
        self.takes_notes = self._by_latency or self._with_faults
        """Whether `note` changes anything."""
        self.faults = Faults(clock)
        self.latencies = Latencies()

    def choose(self, route: Route, last_broker: str | None) -> MessageQueue:
        """The queue for the next attempt; `last_broker` is the one that failed before."""
        if self._with_faults:
            return self._avoiding_faults(route)
        if self._by_latency:
            return self._quickest(route, last_broker)
        return self._in_turn(route, last_broker)

    def note(self, broker_name: str, latency_ms: float, failed: bool) -> None:
        """Note the outcome of an attempt."""
        if self._with_faults:
            self.faults.note(broker_name, latency_ms, failed)
        elif self._by_latency:
            self.latencies.note(broker_name, ISOLATION_MS if failed else latency_ms)

    def _in_turn(self, route: Route, last_broker: str | None) -> MessageQueue:
        queues = route.write_queues
        if last_broker is not None:
            for _ in range(len(queues)):
                queue = queues[self._turns.next(route.topic) % len(queues)]
                if queue.broker_name != last_broker:
                    return queue
        return queues[self._turns.next(route.topic) % len(queues)]

    def _avoiding_faults(self, route: Route) -> MessageQueue:
        queues = route.write_queues
        turn = self._turns.next(route.topic)
        for step in range(len(queues)):
            queue = queues[(turn + step) % len(queues)]
            if self.faults.is_available(queue.broker_name):
                return queue
        broker_name = self.faults.least_bad()
        if broker_name is not None:
            count = route.write_queue_count(broker_name)
            if count > 0:
                return MessageQueue(route.topic, broker_name, self._turns.next(route.topic) % count)
            self.faults.forget(broker_name)
        return self._in_turn(route, None)

    def _quickest(self, route: Route, last_broker: str | None) -> MessageQueue:
        others = [q for q in route.write_queues if q.broker_name != last_broker] or list(route.write_queues)
        best = min(self.latencies.of(queue.broker_name) for queue in others)
        equals = [queue for queue in others if self.latencies.of(queue.broker_name) == best]
        return equals[self._turns.next(route.topic) % len(equals)]


def by_hash(key: str | int) -> Selector:
    """Choose the same queue for equal keys, as Apache's SelectMessageQueueByHash does for String, Integer and Long.

    >>> queues = [MessageQueue("T", "a", i) for i in range(4)]
    >>> by_hash("order-1")(queues, Message("T", b"x")).queue_id
    2
    """
    value = string_hash(key) if isinstance(key, str) else _long_hash(key)

    def select(queues: Sequence[MessageQueue], _: Message) -> MessageQueue:
        return queues[abs(value) % len(queues)]

    return select


def _long_hash(value: int) -> int:
    """`Long.hashCode()`, which is the value itself where it fits an int and is not negative."""
    if -(1 << 31) <= value < 1 << 31:
        return value
    bits = value & 0xFFFFFFFFFFFFFFFF
    return signed32(bits ^ (bits >> 32))
