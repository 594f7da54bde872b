"""Long polling: pulls that found nothing wait until a message arrives or their time is up."""

import logging
from collections.abc import Callable
from typing import Final

from ariane.broker.periodic import Periodic
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.remoting import Connection, LimitExceeded, Reason
from ariane.store import Dispatched, MessageStore
from ariane.store.results import MessageFilter

log = logging.getLogger("ariane.broker")

TICK: Final = 1.0  # seconds between checks for expired pulls
LOOK: Final = 5  # ticks between checks of the queues: a pull whose filter skips messages advances


class Parked:
    """One waiting pull."""

    __slots__ = ("connection", "deadline", "filter", "offset", "queue_id", "request", "size", "topic")

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
        self.size = request.wire_size()


class LongPollLimits:
    """How many pulls may wait, and how many bytes their requests have."""

    __slots__ = ("bytes", "in_all", "per_connection")

    def __init__(self, in_all: int, per_connection: int, bytes: int) -> None:
        self.in_all = in_all
        self.per_connection = per_connection
        self.bytes = bytes


class LongPoll:
    """Parked pulls by topic and queue, and by connection. `resume` is called for each that must be answered now."""

    def __init__(self, store: MessageStore, clock: Clock, limits: LongPollLimits) -> None:
        self._limits = limits
        self._count = 0
        self._bytes = 0
        self._store = store
        self._clock = clock
        self._parked: dict[tuple[str, int], dict[Parked, None]] = {}
        self._of: dict[Connection, dict[Parked, None]] = {}
        self._ticks = 0
        self.resume: Callable[[Parked], None] = _unset

    def __len__(self) -> int:
        return self._count

    def park(self, parked: Parked) -> None:
        """Keep a pull until it can be answered; LimitExceeded when too many wait."""
        self._check_room(parked)
        self._count += 1
        self._bytes += parked.size
        key = (parked.topic, parked.queue_id)
        waiting = self._parked.get(key)
        if waiting is None:
            self._parked[key] = {parked: None}
        else:
            waiting[parked] = None
        of_connection = self._of.get(parked.connection)
        if of_connection is None:
            self._of[parked.connection] = {parked: None}
        else:
            of_connection[parked] = None

    def _check_room(self, parked: Parked) -> None:
        limits = self._limits
        if self._count >= limits.in_all:
            reason, why = Reason.LONG_POLLS, f"{self._count} pulls wait (longPollMax)"
        elif len(self._of.get(parked.connection, ())) >= limits.per_connection:
            reason = Reason.LONG_POLLS_PER_CONNECTION
            why = f"{limits.per_connection} pulls of this connection wait (longPollPerConnectionMax)"
        elif self._bytes + parked.size > limits.bytes:
            reason, why = Reason.LONG_POLL_BYTES, f"the pulls that wait have {self._bytes} bytes (longPollBytesMax)"
        else:
            return
        raise LimitExceeded(reason, ResponseCode.SYSTEM_BUSY, f"{why}; pull again later, or without suspending")

    def waits(self) -> bool:
        """Whether pulls wait, so that `arrived` has something to do."""
        return self._count > 0

    def arrived(self, messages: list[Dispatched]) -> None:
        """Wake, once each, the pulls that wait for one of these messages."""
        if not self._parked:
            return
        arrived: dict[tuple[str, int], list[Dispatched]] = {}
        for message in messages:
            key = (message.topic, message.queue_id)
            if key in self._parked:
                arrived.setdefault(key, []).append(message)
        for key, new in arrived.items():
            self._answer([parked for parked in self._parked.get(key, ()) if _wants(parked, new)])

    def tick(self) -> None:
        """Answer the expired pulls and, every few ticks, those whose queue has grown past their offset."""
        now = self._clock.monotonic()
        self._ticks += 1
        look = self._ticks % LOOK == 0
        due: list[Parked] = []
        for key, waiting in self._parked.items():
            end = self._store.max_offset(*key) if look else -1
            for parked in waiting:
                if parked.deadline <= now or parked.offset < end:
                    due.append(parked)
        self._answer(due)

    def check_again(self, check: Callable[[Connection, Command], None]) -> None:
        """Answer the pulls that `check` refuses with ResponseError: rules may change while they wait."""
        for parked in [parked for waiting in self._parked.values() for parked in waiting]:
            connection, request = parked.connection, parked.request
            if parked not in self._of.get(connection, ()):
                continue  # gone with its connection meanwhile
            try:
                check(connection, request)
            except ResponseError as error:
                self._remove(parked)
                connection.answer(request, request.reply(error.code, remark=error.remark))

    def connection_closed(self, connection: Connection) -> None:
        """Drop the pulls of a connection; cost is proportional to its own pulls."""
        for parked in list(self._of.get(connection, ())):
            self._remove(parked)

    def periodic(self) -> Periodic:
        """The check for expired pulls."""
        return Periodic(self._clock, TICK, self.tick, name="long polling")

    def _answer(self, due: list[Parked]) -> None:
        for parked in due:
            self._remove(parked)
        for parked in due:
            try:
                self.resume(parked)
            except Exception:  # still answer the others
                log.exception("a pull of %s queue %d cannot be answered", parked.topic, parked.queue_id)

    def _remove(self, parked: Parked) -> None:
        self._count -= 1
        self._bytes -= parked.size
        key = (parked.topic, parked.queue_id)
        waiting = self._parked[key]
        del waiting[parked]
        if not waiting:
            del self._parked[key]
        of_connection = self._of[parked.connection]
        del of_connection[parked]
        if not of_connection:
            del self._of[parked.connection]


def _wants(parked: Parked, messages: list[Dispatched]) -> bool:
    """Whether the filter of a pull matches one of these messages; if not, waking it would find nothing."""
    filter = parked.filter
    if filter is None:
        return True
    return any(filter.matches_code(m.tags_code) and filter.matches_message(m.properties) for m in messages)


def _unset(_: Parked) -> None:
    raise AssertionError("resume is not set")
