"""Pulls that found nothing wait here until a message comes or their time is up."""

from collections.abc import Callable
from typing import Final

from ariane.broker.periodic import Periodic
from ariane.env import Clock
from ariane.protocol.command import Command
from ariane.remoting import Connection
from ariane.store import Dispatched, MessageStore
from ariane.store.results import MessageFilter

TICK: Final = 1.0  # seconds between looks at the clock
LOOK: Final = 5  # ticks between looks at the queues: those who skip messages that they do not want move on


class Parked:
    """One waiting pull."""

    __slots__ = ("connection", "deadline", "filter", "offset", "queue_id", "request", "topic")

    def __init__(
        self,
        connection: Connection,
        request: Command,
        topic: str,
        queue_id: int,
        offset: int,
        filter: MessageFilter | None,
        deadline: float,
    ) -> None:
        self.connection = connection
        self.request = request
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset
        self.filter = filter
        self.deadline = deadline


class LongPoll:
    """Parked pulls by topic and queue. `resume` is called for each that must be answered now."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._parked: dict[tuple[str, int], list[Parked]] = {}
        self._ticks = 0
        self.resume: Callable[[Parked], None] = _unset

    def __len__(self) -> int:
        return sum(map(len, self._parked.values()))

    def park(self, parked: Parked) -> None:
        """Keep a pull until it can be answered."""
        key = (parked.topic, parked.queue_id)
        waiting = self._parked.get(key)
        if waiting is None:
            self._parked[key] = [parked]
        else:
            waiting.append(parked)

    def arrived(self, messages: list[Dispatched]) -> None:
        """Messages can be pulled now: wake, once each, those who wait for one of them."""
        if not self._parked:
            return
        arrived: dict[tuple[str, int], list[Dispatched]] = {}
        for message in messages:
            key = (message.topic, message.queue_id)
            if key in self._parked:
                arrived.setdefault(key, []).append(message)
        for key, new in arrived.items():
            self._wake(key, _wanting(new))

    def tick(self) -> None:
        """Answer those whose time is up and, now and then, those whose queue has grown past them."""
        now = self._clock.monotonic()
        self._ticks += 1
        look = self._ticks % LOOK == 0
        for key in list(self._parked):
            self._wake(key, _overdue(now, self._store.max_offset(*key) if look else -1))

    def connection_closed(self, connection: Connection) -> None:
        """Nobody is there to be answered any more."""
        for key in list(self._parked):
            self._keep(key, [p for p in self._parked[key] if p.connection is not connection])

    def periodic(self) -> Periodic:
        return Periodic(self._clock, TICK, self.tick, name="long polling")

    def _wake(self, key: tuple[str, int], ready: Callable[[Parked], bool]) -> None:
        waiting = self._parked.pop(key, [])
        self._keep(key, [])
        late: list[Parked] = []
        for parked in waiting:
            if ready(parked):
                self.resume(parked)
            else:
                late.append(parked)
        for parked in late:
            self.park(parked)

    def _keep(self, key: tuple[str, int], waiting: list[Parked]) -> None:
        if waiting:
            self._parked[key] = waiting
        else:
            self._parked.pop(key, None)


def _wanting(messages: list[Dispatched]) -> Callable[[Parked], bool]:
    """Who wants one of these messages; an expression is asked with their properties, or it would wake in vain."""

    def wants(parked: Parked) -> bool:
        filter = parked.filter
        if filter is None:
            return True
        return any(filter.matches_code(m.tags_code) and filter.matches_message(m.properties) for m in messages)

    return wants


def _overdue(now: float, end: int) -> Callable[[Parked], bool]:
    """Whose time is up, or whose queue has grown beyond what it waits for."""
    return lambda parked: parked.deadline <= now or parked.offset < end


def _unset(_: Parked) -> None:
    raise AssertionError("nobody answers parked pulls")
