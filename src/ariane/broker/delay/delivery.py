"""Delayed messages: each level has a queue, and a message that is due is stored again under its own topic.

A message with a delay level is stored in SCHEDULE_TOPIC_XXXX, queue level - 1, with its real topic and queue in its
properties; the tags code of the queue entry is the time at which it is due. delayOffset.json holds the progress.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from ariane import message
from ariane.broker.seldom_log import SeldomLog
from ariane.broker.unit_copy import copy_of, packed, properties_of, topic_of
from ariane.env import Clock
from ariane.errors import ProtocolError
from ariane.message import DELAY, HALF_TOPIC, REAL_QUEUE_ID, REAL_TOPIC, SCHEDULE_TOPIC, UNIQUE_KEY
from ariane.protocol.bodies.groups import DelayOffsetTable
from ariane.protocol.properties import delay_level
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT, Unit, decode_unit
from ariane.store import STORED, PutResult, PutStatus
from ariane.store.results import QueryResult

log = logging.getLogger("ariane.broker.delay")

BATCH = 64  # messages of one level delivered before the next level's turn
SHORTEST = 0.01  # seconds: messages due within this time are delivered together
RETRY = 0.1  # seconds until a delivery that the store refused is tried again
IDLE = 1.0  # longest wait: replicated messages are not announced
_COPIES = 32  # messages of one key that are looked at
_EVER = 1 << 62


class ScheduleLog(Protocol):
    """The part of the store that delayed messages use."""

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]: ...

    def unit_at(self, physical_offset: int) -> Unit | None: ...

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryResult: ...


def make_delayed(unit: Unit, max_level: int) -> int:
    """Redirect a unit with a delay level to the schedule topic; return the level, 0 when it is not delayed.

    A half message is not delayed; the message that is committed is.
    """
    level = min(delay_level(unit.properties), max_level)
    if level <= 0 or unit.sys_flag & TRANSACTION_MASK not in (TRANSACTION_NOT, TRANSACTION_COMMIT):
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
    """The message to deliver for a stored one; None when its properties do not name its real topic and queue.

    The DELAY property stays, as in Apache's broker; nothing reads it in a delivered message.
    """
    properties = properties_of(unit)
    topic = properties.get(REAL_TOPIC)
    queue = properties.get(REAL_QUEUE_ID, "")
    if topic is None or not message.is_valid_name(topic) or not queue.isdecimal() or topic == HALF_TOPIC:
        return None
    return copy_of(unit, topic, int(queue), properties)


class _Level:
    """One level: its queue and its progress."""

    def __init__(self, number: int, delay_ms: int) -> None:
        self.number = number
        self.queue_id = number - 1
        self.delay_ms = delay_ms
        self.offset = 0
        self.delivered_end = 0  # end of the last delivered copy in the log
        self.suspect_since: float | None = None  # when an entry was first seen whose due time is too far ahead
        self.unsure = True
        """Whether another master, or a run that was killed, may have delivered what comes next."""
        self.copied = -1  # log offset of the last copy that was found


class Delay:
    """The levels, and the task that delivers due messages: never early, never lost, across restarts."""

    def __init__(
        self,
        levels_ms: Sequence[int],
        store: ScheduleLog,
        put: Callable[[Unit], PutResult],
        clock: Clock,
    ) -> None:
        self._levels = [_Level(number, delay) for number, delay in enumerate(levels_ms, 1)]
        self._unused: dict[int, int] = {}  # progress of levels that messageDelayLevel does not have now
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
        """The highest level."""
        return len(self._levels)

    def delay_ms(self, level: int) -> int:
        """The delay of a level; 1 s, as in Apache's broker, for a level that does not exist."""
        return self._levels[level - 1].delay_ms if 1 <= level <= len(self._levels) else 1000

    def rewrite(self, unit: Unit) -> None:
        """Redirect a unit with a delay level to the schedule topic."""
        level = make_delayed(unit, self.max_level)
        if level:
            self.expect(self._clock.now_ms() + self.delay_ms(level))

    def expect(self, due_ms: int) -> None:
        """Wake the delivery task at the latest when a message is due."""
        if self._wake_at is None or due_ms < self._wake_at:
            self._wake_at = due_ms
            self._news.set()

    # Progress.

    def offsets(self) -> dict[int, int]:
        """The next offset to deliver, by level; levels that delivered nothing yet are left out."""
        return {level.number: level.offset for level in self._levels if level.offset}

    def durable_end(self) -> int:
        """The end in the log of all delivered copies: the log must be flushed up to it before the offsets are saved."""
        return max((level.delivered_end for level in self._levels), default=0)

    def load(self, text: bytes) -> None:
        """Read delayOffset.json; offsets outside of their queue are moved to its nearest end."""
        self.copy(text)
        self.correct()

    def copy(self, text: bytes) -> None:
        """Take over the progress of a master, whose queues may still be longer."""
        table = DelayOffsetTable.decode(text).offset_table
        for level in self._levels:
            level.offset = table.pop(level.number, 0)
        self._unused = table

    def take_back(self, end: int, text: bytes) -> None:
        """Levels that delivered into the log after `end` go back to the offset in `text`."""
        table = DelayOffsetTable.decode(text).offset_table if text else {}
        for level in self._levels:
            if level.delivered_end > end:
                level.offset = min(level.offset, table.get(level.number, 0))
                level.delivered_end = 0

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
        return DelayOffsetTable({**self._unused, **self.offsets()}).encode()

    def running_info(self) -> dict[str, str]:
        """The rows that delayed messages add to a broker's runtime information."""
        return {
            f"scheduleMessageOffset_{number}": f"{offset},{self._store.max_offset(SCHEDULE_TOPIC, number - 1)}"
            for number, offset in self.offsets().items()
        }

    # Delivery.

    def start(self) -> None:
        """Start delivering. The progress may be some seconds old: what was delivered since is looked for in the log."""
        for level in self._levels:
            level.unsure, level.copied = True, -1
        self._task = asyncio.get_running_loop().create_task(self._run(), name="delayed messages")

    async def stop(self) -> None:
        """Stop delivering, between two messages."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                wait = self.deliver_due()
            except Exception:
                log.exception("delivery of delayed messages failed; retrying")
                wait = RETRY
            await self._wait(wait)

    async def _wait(self, seconds: float) -> None:
        """Sleep, at least one turn of the loop, until the time is up or `expect` announces an earlier message."""
        self._news.clear()
        sleeper = asyncio.ensure_future(self._clock.sleep(seconds))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({sleeper, news}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Not awaited: a concurrent `stop` would cancel only that wait and be lost.
            sleeper.cancel()
            news.cancel()

    def deliver_due(self) -> float:
        """Deliver the due messages, a batch of each level; return the seconds until the next turn."""
        now = self._clock.now_ms()
        waits = [self._announced_wait(now)]
        waits += [self._deliver_level(level) for level in self._levels]
        return min(waits)

    def _announced_wait(self, now: int) -> float:
        """Seconds until the announced message is due; a short time when it is overdue but has no queue entry yet."""
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
                level.unsure = False
                return min(IDLE, max(SHORTEST, remaining / 1000))
            level.unsure = level.unsure and self._was_delivered(level, physical)
            if not level.unsure and not self._deliver(level, physical):
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

        More than the level's delay means that the wall clock was set back: the entry then waits the delay once more by
        the monotonic clock, which is late but never early.
        """
        remaining = due - self._clock.now_ms()
        if remaining <= level.delay_ms:
            level.suspect_since = None
            return remaining
        if level.suspect_since is None:
            level.suspect_since = self._clock.monotonic()
        waited = int((self._clock.monotonic() - level.suspect_since) * 1000)
        return level.delay_ms - waited

    def _was_delivered(self, level: _Level, physical: int) -> bool:
        """Whether the log has a delivered copy of a stored message. A level delivers in order, so do its copies."""
        unit = self._store.unit_at(physical)
        copy = due_message(unit) if unit is not None else None
        key = properties_of(copy).get(UNIQUE_KEY) if copy is not None else None
        if unit is None or copy is None or not key:
            return False
        earliest = unit.store_time - 1000  # the index counts seconds
        found = self._store.query(topic_of(copy), key, _COPIES, earliest, _EVER)
        for data in reversed(found.slices):  # oldest first
            try:
                stored = decode_unit(data)
            except ProtocolError:
                continue  # the index may name damaged bytes
            if stored.physical_offset > max(physical, level.copied) and _same(stored, copy):
                level.copied = stored.physical_offset
                level.delivered_end = max(level.delivered_end, stored.physical_offset + len(data))
                return True
        return False

    def _deliver(self, level: _Level, physical: int) -> bool:
        """Store a message that is due; False when the store refuses for now. An undeliverable one is skipped."""
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


def _same(stored: Unit, copy: Unit) -> bool:
    """Whether a stored message is this copy. No other message has the properties of a delivered one and its birth."""
    return (
        stored.topic == copy.topic
        and stored.properties == copy.properties
        and stored.born_time == copy.born_time
        and stored.reconsume_times == copy.reconsume_times
        and stored.body == copy.body
    )
