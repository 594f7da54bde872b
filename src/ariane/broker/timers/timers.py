"""Delivers messages at their delivery time: never early, never lost, across restarts and changes of role.

The log is the only source of state. Pending messages are in a queue of their own, whose entries hold the times; the
wheel sorts them and is rebuilt from the queue at each start. Deliveries are noted in the log too, after the delivered
messages: after a crash, on a promoted slave and on a new DLedger leader, notes and messages agree. Messages delivered
after the last note are delivered again.

Pending messages survive the expiry of their log file: they are stored again at the end of the log first.
"""

import asyncio
import contextlib
import json
import logging
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from ariane.broker.seldom_log import SeldomLog
from ariane.broker.timers.timed_message import (
    MESSAGES,
    STATES,
    cancelled_key,
    check_time,
    due_message,
    make_timed,
    rolled_message,
    unique_key,
)
from ariane.broker.timers.wheel import Entry, Wheel
from ariane.broker.unit_copy import properties_of
from ariane.env import Clock, Files
from ariane.errors import ResponseError
from ariane.message import TIMER_TOPIC
from ariane.protocol.codes import ResponseCode
from ariane.protocol.properties import delay_level
from ariane.protocol.units import Unit
from ariane.store import STORED, PutResult, PutStatus
from ariane.store.dispatch import timer_code

log = logging.getLogger("ariane.broker.timers")

BATCH: Final = 256  # entries read, and messages delivered, between two turns of the event loop
NOTE_INTERVAL: Final = 1.0  # seconds between two delivery notes
RETRY: Final = 0.1
IDLE: Final = 1.0
_PERIODS: Final = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_DUE_EDGES: Final = (10, 60, 300, 600, 1800, 3600, 7200, 86_400)  # seconds from now
_ANY: Final = 1 << 60
_LEAST_TIME: Final = 1 << 32  # a queue entry below it is not a time: another broker wrote the queue


class TimerLog(Protocol):
    """The part of the store that timers use."""

    @property
    def log_min(self) -> int: ...

    @property
    def flushed_offset(self) -> int: ...

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]: ...

    def unit_at(self, physical_offset: int) -> Unit | None: ...


@dataclass(frozen=True, slots=True)
class Note:
    """A delivery note: everything due up to `until` among the first `read` entries, and all before `rolled`."""

    read: int = 0
    until: int = 0
    rolled: int = 0
    """Pending messages before this offset were stored again at a later offset."""


class Timers:
    """The pending messages, and the task that delivers them."""

    def __init__(
        self,
        store: TimerLog,
        put: Callable[[Unit], PutResult],
        clock: Clock,
        files: Files,
        folder: Path,
        *,
        enabled: Callable[[], bool],
        longest_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._put = put
        self._clock = clock
        self._files = files
        self._folder = folder
        self._enabled = enabled
        self._longest_ms = longest_ms
        self._wheel: Wheel | None = None
        self._note = Note()
        self._noted = Note()
        self._noted_at = 0.0
        self._read = 0  # the next queue entry to put into the wheel
        self._late: set[int] = set()  # offsets of entries overdue on arrival, or added after the clock was set back
        self._cancelled: tuple[int, set[str]] = (0, set())  # a time, and the keys cancelled at it
        self._settled = 0  # the entries before it may have been delivered by an earlier run
        self._rolled_to = 0  # pending messages before this entry were stored again later in the queue
        self._roll_end = 0  # pending messages before this log offset must be stored again
        self._stored_end = 0  # log offset after the timers' last append
        self._progress = 0  # changes since the last note
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._refused = SeldomLog(log, clock)
        self.delivered = 0
        self.cancelled = 0
        self.dropped = 0

    # Incoming messages.

    def rewrite(self, unit: Unit) -> bool:
        """Redirect a unit that asks for a later time; False when it does not. ResponseError for an illegal time.

        A delay level takes precedence over a time, as in RocketMQ 5.
        """
        due, properties = self._due(unit)
        if due:
            make_timed(unit, properties, due)
            self._news.set()
        return due > 0

    def check(self, unit: Unit) -> None:
        """ResponseError when a unit, the half of a transaction, asks for an illegal time."""
        self._due(unit)

    def _due(self, unit: Unit) -> tuple[int, dict[str, str]]:
        properties = properties_of(unit)
        if delay_level(unit.properties) > 0:
            return 0, properties
        # The delay of a committed message was checked when its half message was sent.
        # The flag alone proves nothing: any producer can set it.
        longest = _ANY if unit.prepared_offset else self._longest_ms()
        due = check_time(properties, self._clock.now_ms(), longest)
        if due and not self._enabled():
            text = "accurate timer message is not enabled, timerWheelEnable is false"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, text)
        return due, properties

    # Start and stop.

    def start(self) -> None:
        """Start the delivery task; it first reads the pending messages."""
        self._wheel = None
        self._news.set()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="timers")

    async def stop(self) -> None:
        """Stop between two messages, and write a delivery note."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if self._wheel is not None:
            if self._progress:
                self._write_note()
            self._wheel = None

    def load(self) -> None:
        """Load the last delivery note, and start with an empty wheel."""
        self._note = self._noted = self._last_note()
        self._late.clear()
        self._read = max(self._store.min_offset(TIMER_TOPIC, MESSAGES), self._note.rolled, 0)
        self._settled = self._note.read
        self._rolled_to = self._read
        self._roll_end = 0
        start = self._note.until
        if not start:
            entries = self._store.queue_entries(TIMER_TOPIC, MESSAGES, self._read, 1)
            first = self._store.unit_at(entries[0][0]) if entries else None
            start = self._clock.now_ms() if first is None else first.store_time
        self._wheel = Wheel(self._files, self._folder, start)

    def _last_note(self) -> Note:
        end = self._store.max_offset(TIMER_TOPIC, STATES)
        entries = self._store.queue_entries(TIMER_TOPIC, STATES, end - 1, 1)
        unit = self._store.unit_at(entries[0][0]) if entries else None
        if unit is None:
            return Note()
        self._stored_end = max(self._stored_end, unit.physical_offset + entries[0][1])
        try:
            fields = json.loads(unit.body)
            return Note(int(fields["read"]), int(fields["until"]), int(fields["rolled"]))
        except (ValueError, KeyError, TypeError):
            log.error("the last note of delivered timers (log %d) is damaged: all are delivered", unit.physical_offset)
            return Note()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            try:
                wait = self.turn()
            except Exception:
                log.exception("delivery of timed messages failed; what waits is read again")
                self._wheel = None
                wait = IDLE
            await self._wait(wait)

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = asyncio.ensure_future(self._clock.sleep(seconds))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({sleeper, news}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in (sleeper, news):
                waiter.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiter

    # Delivery.

    def turn(self) -> float:
        """Read some entries, deliver some messages; return the seconds until the next turn."""
        if self._wheel is None:
            self.load()
        wheel = self._wheel
        assert wheel is not None
        more = self._take_entries(wheel)
        if self._read < self._settled:
            return 0.0  # deliver nothing before all entries of earlier runs are read
        now = self._clock.now_ms()
        wait = self._deliver_due(wheel, now)
        if self._roll_end:
            self._roll_forward()
        self._note_progress(wheel, now)
        return 0.0 if more or self._roll_end else wait

    def _deliver_due(self, wheel: Wheel, now: int) -> float:
        for _ in range(BATCH):
            entry = wheel.first(now)
            if entry is None:
                if not wheel.work(now):
                    following = wheel.next_ms()
                    return IDLE if following is None else min(IDLE, max(0.001, (following - now) / 1000))
            elif self._deliver(entry):
                wheel.pop()
                self._late.discard(_offset(entry))
                self._progress += 1
            else:
                return RETRY
        return 0.0

    def _take_entries(self, wheel: Wheel) -> bool:
        """Move entries from the queue to the wheel; True when there are more."""
        end = self._store.max_offset(TIMER_TOPIC, MESSAGES)
        if self._read >= end:
            return False
        low = self._store.min_offset(TIMER_TOPIC, MESSAGES)
        if self._read < low:
            log.error("timed messages %d to %d were deleted undelivered", self._read, low)
            self._read = low
        entries = self._store.queue_entries(TIMER_TOPIC, MESSAGES, self._read, BATCH)
        for physical, _, code in entries:
            due = abs(code)
            offset = self._read
            if due < _LEAST_TIME:
                code = self._code_of(physical)
                due = abs(code)
            if offset >= self._settled or due > self._note.until:
                wheel.add(Entry(due, offset if code > 0 else -1 - offset, physical))
                if due <= self._note.until:
                    self._late.add(offset)
            self._read = offset + 1
        if not entries:
            self._read = end  # blank entries: their messages are gone
        return self._read < end

    def _code_of(self, physical: int) -> int:
        """The time of an entry that a broker without timers wrote."""
        unit = self._store.unit_at(physical)
        return timer_code(unit.properties) if unit is not None else 0

    def _deliver(self, entry: Entry) -> bool:
        """Store a message that is due under its own topic; False when the store refuses for now."""
        offset = _offset(entry)
        if offset < self._rolled_to or entry.physical < self._store.log_min:
            return True  # replaced by its later copy
        unit = self._store.unit_at(entry.physical)
        if unit is None:
            self.dropped += 1
            log.error("timed message %d (log %d) cannot be read", offset, entry.physical)
            return True
        if self._cancelled[0] != entry.due_ms:
            self._cancelled = (entry.due_ms, set())
        if entry.rank < 0:
            self._cancelled[1].add(cancelled_key(unit))
            return True
        if self._cancelled[1] and unique_key(unit) in self._cancelled[1]:
            self.cancelled += 1
            return True
        target = due_message(unit)
        if target is None:
            self.dropped += 1
            log.error("timed message %d (log %d) does not name its topic and queue", offset, entry.physical)
            return True
        result = self._append(target)
        if result.status in STORED:
            self.delivered += 1
            return True
        self._refused.warning("timed message %d not stored: %s", offset, result.status.name)
        return result.status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_TOO_LONG)

    def _append(self, unit: Unit) -> PutResult:
        result = self._put(unit)
        if result.status in STORED:
            self._stored_end = result.physical_offset + result.size
        return result

    # Notes.

    def _note_progress(self, wheel: Wheel, now: int) -> None:
        until = max(self._note.until, wheel.ready_until(now))
        self._note = Note(min(self._late, default=self._read), until, self._rolled_to)
        if self._progress and self._clock.monotonic() - self._noted_at >= NOTE_INTERVAL:
            self._write_note()

    def _write_note(self) -> None:
        if self._note == self._noted:
            return
        unit = Unit(TIMER_TOPIC.encode(), json.dumps(asdict(self._note)).encode(), b"", queue_id=STATES)
        if self._append(unit).status in STORED:
            self._noted = self._note
            self._noted_at = self._clock.monotonic()
            self._progress = 0

    # Retention.

    def keep(self, end: int) -> bool:
        """Whether no pending message is in the log before `end`. Otherwise they are stored again soon: ask later.

        Retention asks before it deletes a log file, which requires that copies of all its pending messages are on the
        disk. A slave cannot store copies: the file stays until those of the master have arrived.
        """
        if self._wheel is None:
            self._note = self._last_note()
            self._rolled_to = max(self._store.min_offset(TIMER_TOPIC, MESSAGES), self._note.rolled)
        if self._next_waiting(end) is None:
            return self._store.flushed_offset >= self._stored_end
        self._roll_end = max(self._roll_end, end)
        self._news.set()
        return False

    def _next_waiting(self, end: int) -> tuple[int, int] | None:
        """Queue offset and log offset of the first pending message in the log before `end`."""
        while entries := self._store.queue_entries(TIMER_TOPIC, MESSAGES, self._rolled_to, BATCH):
            for physical, _, code in entries:
                if physical >= end:
                    return None
                due = abs(code) if abs(code) >= _LEAST_TIME else abs(self._code_of(physical))
                if self._rolled_to >= self._note.read or due > self._note.until:
                    return self._rolled_to, physical
                self._rolled_to += 1
        return None

    def _roll_forward(self) -> None:
        for _ in range(BATCH):
            found = self._next_waiting(self._roll_end)
            if found is None:
                self._roll_end = 0
                break
            unit = self._store.unit_at(found[1])
            if unit is not None and self._append(rolled_message(unit)).status not in STORED:
                break
            self._rolled_to = found[0] + 1
            self._progress += 1

    # Figures for operators.

    @property
    def pending(self) -> int:
        """Number of pending messages."""
        return 0 if self._wheel is None else self._wheel.count

    def histogram(self) -> dict[int, int]:
        """How many messages are due in each period, by the time of its start."""
        return {} if self._wheel is None else self._wheel.histogram()

    def due_within(self) -> dict[str, int]:
        """How many messages are due within a minute, an hour, a day, and later."""
        found = dict.fromkeys((*_PERIODS, "later"), 0)
        now = self._clock.now_ms()
        for start, count in self.histogram().items():
            name = next((name for name, period in _PERIODS.items() if start - now < period), "later")
            found[name] += count
        return found

    def due_histogram(self) -> dict[int, int]:
        """How many messages are due within so many seconds, and after the seconds before; 0 for those after all.

        A period counts where it begins; those after the next hour are hours.
        """
        now, counts = self._clock.now_ms(), [0] * (len(_DUE_EDGES) + 1)
        for start, count in self.histogram().items():
            counts[bisect_right(_DUE_EDGES, (start - now) / 1000)] += count
        return dict(zip((*_DUE_EDGES, 0), counts, strict=True))

    def running_info(self) -> dict[str, str]:
        """The rows that timers add to a broker's runtime information, once one was used."""
        end = self._store.max_offset(TIMER_TOPIC, MESSAGES)
        if not end:
            return {}
        return {
            "timerPending": str(self.pending),
            "timerReadBehind": str(max(end - self._read, 0)),
            "timerDelivered": str(self.delivered),
            **{f"timerDue{name.capitalize()}": str(count) for name, count in self.due_within().items()},
            "timerDueSeconds": " ".join(f"{edge}:{count}" for edge, count in self.due_histogram().items()),
        }


def _offset(entry: Entry) -> int:
    """The offset of an entry in the queue of timed messages."""
    return entry.rank if entry.rank >= 0 else -1 - entry.rank
