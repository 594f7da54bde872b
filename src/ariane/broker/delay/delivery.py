"""Delayed messages: they wait in one queue for each level, and are stored again under their own topic when due.

A message with a delay level is stored in SCHEDULE_TOPIC_XXXX, queue level - 1, with its real topic and queue among its
properties; the queue entry's tags code is the time at which it is due. How far each level has come is delayOffset.json.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from ariane import message
from ariane.broker.seldom_log import SeldomLog
from ariane.broker.unit_copy import copy_of, packed, properties_of, topic_of
from ariane.env import Clock
from ariane.message import DELAY, HALF_TOPIC, REAL_QUEUE_ID, REAL_TOPIC, SCHEDULE_TOPIC
from ariane.protocol.bodies.groups import DelayOffsetTable
from ariane.protocol.properties import delay_level
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK, Unit
from ariane.store import STORED, PutResult, PutStatus

log = logging.getLogger("ariane.broker.delay")

BATCH = 64  # messages of one level before others get their turn
SHORTEST = 0.01  # seconds: messages due that near to each other are delivered together
RETRY = 0.1  # seconds until a delivery that the store refused is tried again
IDLE = 1.0  # longest nap: messages that came by replication announce themselves to nobody
_TRANSACTION = TRANSACTION_ROLLBACK  # the mask of both transaction bits


class ScheduleLog(Protocol):
    """What delayed messages need of the store."""

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]: ...

    def unit_at(self, physical_offset: int) -> Unit | None: ...


def make_delayed(unit: Unit, max_level: int) -> int:
    """Turn a unit that asks for a delay into its form in the schedule topic; its level, or 0 when it is not delayed.

    A half message is not delayed; when it is committed, what comes of it is.
    """
    level = min(delay_level(unit.properties), max_level)
    if level <= 0 or unit.sys_flag & _TRANSACTION not in (TRANSACTION_NOT, TRANSACTION_COMMIT):
        return 0
    if unit.topic == HALF_TOPIC.encode():
        return 0
    properties = properties_of(unit)
    properties[DELAY] = str(level)
    properties[REAL_TOPIC] = topic_of(unit)
    properties[REAL_QUEUE_ID] = str(unit.queue_id)
    unit.properties = packed(properties)
    unit.topic = SCHEDULE_TOPIC.encode()
    unit.queue_id = level - 1
    return level


def due_message(unit: Unit) -> Unit | None:
    """The message that a waiting one becomes; None when its properties do not say where it belongs.

    Its DELAY property stays, as Apache's broker leaves it in the stored text; elsewhere nobody reads it.
    """
    properties = properties_of(unit)
    topic = properties.get(REAL_TOPIC)
    queue = properties.get(REAL_QUEUE_ID, "")
    if topic is None or not message.is_valid_name(topic) or not queue.isdecimal() or topic == HALF_TOPIC:
        return None
    return copy_of(unit, topic, int(queue), properties)


class _Level:
    """One level's queue and how far it has come."""

    def __init__(self, number: int, delay_ms: int) -> None:
        self.number = number
        self.queue_id = number - 1
        self.delay_ms = delay_ms
        self.offset = 0
        self.delivered_end = 0  # where the last delivered copy ends in the log
        self.suspect_since: float | None = None  # when an entry was first seen that is due later than it can be


class Delay:
    """The levels and the pump that delivers what is due. Not early, not lost, however often the broker restarts."""

    def __init__(
        self,
        levels_ms: Sequence[int],
        store: ScheduleLog,
        put: Callable[[Unit], PutResult],
        clock: Clock,
    ) -> None:
        self._levels = [_Level(number, delay) for number, delay in enumerate(levels_ms, 1)]
        self._store = store
        self._put = put
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._refused = SeldomLog(log, clock)
        self._news = asyncio.Event()
        self._wake_at: int | None = None
        self.delivered = 0
        self.dropped = 0

    @property
    def max_level(self) -> int:
        return len(self._levels)

    def delay_ms(self, level: int) -> int:
        """How long a level waits; Apache's second for a level that is none."""
        return self._levels[level - 1].delay_ms if 1 <= level <= len(self._levels) else 1000

    def rewrite(self, unit: Unit) -> None:
        """Send a unit that asks for a delay to the schedule topic; see `make_delayed`."""
        level = make_delayed(unit, self.max_level)
        if level:
            self.expect(self._clock.now_ms() + self.delay_ms(level))

    def expect(self, due_ms: int) -> None:
        """Something will be due then: the pump must not sleep longer."""
        if self._wake_at is None or due_ms < self._wake_at:
            self._wake_at = due_ms
            self._news.set()

    # Progress.

    def offsets(self) -> dict[int, int]:
        """How far each level has come, by level; levels that delivered nothing yet are left out."""
        return {level.number: level.offset for level in self._levels if level.offset}

    def durable_end(self) -> int:
        """The end in the log of all copies that `offsets` counts as delivered: flush so far before offsets are kept."""
        return max((level.delivered_end for level in self._levels), default=0)

    def load(self, text: bytes) -> None:
        """Take over delayOffset.json; offsets outside of their queue are moved to its nearest end."""
        table = DelayOffsetTable.decode(text).offset_table
        for level in self._levels:
            level.offset = table.get(level.number, 0)
        self.correct()

    def correct(self) -> None:
        """Move offsets that are outside of their queue to its nearest end."""
        for level in self._levels:
            low = max(0, self._store.min_offset(SCHEDULE_TOPIC, level.queue_id))
            high = max(low, self._store.max_offset(SCHEDULE_TOPIC, level.queue_id))
            nearest = min(max(level.offset, low), high)
            if nearest != level.offset:
                log.warning("delay level %d: offset %d corrected to %d", level.number, level.offset, nearest)
                level.offset = nearest

    def encode(self) -> bytes:
        """The text of delayOffset.json."""
        return DelayOffsetTable(self.offsets()).encode()

    def running_info(self) -> dict[str, str]:
        """The rows that delayed messages add to a broker's runtime information."""
        return {
            f"scheduleMessageOffset_{number}": f"{offset},{self._store.max_offset(SCHEDULE_TOPIC, number - 1)}"
            for number, offset in self.offsets().items()
        }

    # Delivery.

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="delayed messages")

    async def stop(self) -> None:
        """Stop between two messages."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                wait = self.deliver_due()
            except Exception:
                log.exception("delivery of delayed messages failed; it is tried again")
                wait = RETRY
            await self._nap(wait)

    async def _nap(self, seconds: float) -> None:
        """Sleep, at least one turn of the loop, until the time is up or something is due earlier."""
        self._news.clear()
        sleeper = asyncio.ensure_future(self._clock.sleep(seconds))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({sleeper, news}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in (sleeper, news):
                waiter.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiter

    def deliver_due(self) -> float:
        """Deliver what is due now, a batch of each level; the answer is how many seconds to wait for more."""
        now = self._clock.now_ms()
        waits = [self._announced_wait(now)]
        waits += [self._deliver_level(level) for level in self._levels]
        return min(waits)

    def _announced_wait(self, now: int) -> float:
        """Until what `expect` announced; when that is past and its entry is not there yet, look again soon."""
        due, self._wake_at = self._wake_at, None
        if due is None:
            return IDLE
        if due > now:
            self._wake_at = due
            return min(IDLE, (due - now) / 1000)
        return RETRY

    def _deliver_level(self, level: _Level) -> float:
        entries = self._entries(level)
        for physical, _, due in entries:
            remaining = self._remaining_ms(level, due)
            if remaining > 0:
                return min(IDLE, max(SHORTEST, remaining / 1000))
            if not self._deliver(level, physical):
                return RETRY
            level.offset += 1
        return 0.0 if len(entries) == BATCH else IDLE

    def _entries(self, level: _Level) -> list[tuple[int, int, int]]:
        high = self._store.max_offset(SCHEDULE_TOPIC, level.queue_id)
        if level.offset >= high:
            return []
        low = self._store.min_offset(SCHEDULE_TOPIC, level.queue_id)
        if level.offset < low:
            log.warning("delay level %d: messages %d to %d were deleted undelivered", level.number, level.offset, low)
            level.offset = low
        return list(self._store.queue_entries(SCHEDULE_TOPIC, level.queue_id, level.offset, BATCH))

    def _remaining_ms(self, level: _Level, due: int) -> int:
        """Milliseconds until an entry is due by the wall clock.

        When that is longer than the level's delay, the wall clock was set back: the entry then waits the delay once
        more by the clock that nobody sets, which is late but never early.
        """
        remaining = due - self._clock.now_ms()
        if remaining <= level.delay_ms:
            level.suspect_since = None
            return remaining
        if level.suspect_since is None:
            level.suspect_since = self._clock.monotonic()
        waited = int((self._clock.monotonic() - level.suspect_since) * 1000)
        return level.delay_ms - waited

    def _deliver(self, level: _Level, physical: int) -> bool:
        """Store what is due; False when the store refuses for now. What can never be delivered is logged and passed."""
        unit = self._store.unit_at(physical)
        target = due_message(unit) if unit is not None else None
        if target is None:
            self.dropped += 1
            log.error("delay level %d: offset %d (log %d) has no message", level.number, level.offset, physical)
            return True
        result = self._put(target)
        if result.status not in STORED:
            self._refused.warning(
                "delay level %d: offset %d not stored: %s", level.number, level.offset, result.status.name
            )
            return result.status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_TOO_LONG)
        level.delivered_end = max(level.delivered_end, result.physical_offset + result.size)
        self.delivered += 1
        return True
