"""The check of undecided half messages: ask their producers, at most `transactionCheckMax` times each."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from ariane.broker.transactions.half_messages import (
    CHECK_GROUP,
    HALF_QUEUE,
    RECENT,
    HalfLog,
    HalfQueue,
    identity,
    note_first,
)
from ariane.broker.unit_copy import copy_of, packed, properties_of
from ariane.env import Clock
from ariane.errors import RemotingError
from ariane.message import (
    CHECK_IMMUNITY_SECONDS,
    CHECK_MAX_TIME_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    UNIQUE_KEY,
    is_valid_name,
)
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import CheckTransactionStateRequest
from ariane.protocol.ids import offset_id
from ariane.protocol.units import Unit, encode_unit
from ariane.store import STORED, PutResult, PutStatus

log = logging.getLogger("ariane.broker.transactions")

BATCH: Final = 200  # half messages per turn of the event loop
LONGEST: Final = 60.0  # seconds of one round
_MOST_DIGITS: Final = 18
MOST_LISTED: Final = 5  # groups and messages named in a round's log line


class RoundReport:
    """The counts of one round, for its log line."""

    def __init__(self) -> None:
        self.asked = 0
        self.given_up = 0
        self.missing = 0
        self.refused = ""
        self.without_producer: Counter[str] = Counter()
        self.unreachable: Counter[str] = Counter()
        self.examples: list[str] = []

    def write(self) -> None:
        """Log the round; nothing when it did nothing."""
        parts = [f"{self.asked} producers asked"] if self.asked else []
        if self.without_producer:
            parts.append(f"{self.without_producer.total()} without a producer ({_groups(self.without_producer)})")
        if self.unreachable:
            parts.append(f"{self.unreachable.total()} producers not reached ({_groups(self.unreachable)})")
        if self.refused:
            parts.append(f"stopped: the store refuses copies ({self.refused})")
        if self.missing:
            parts.append(f"{self.missing} skipped that are no longer in the log")
        if self.given_up:
            examples = ", ".join(self.examples)
            parts.append(f"{self.given_up} given up undecided and moved to {CHECK_MAX_TIME_TOPIC} ({examples} ...)")
        if not parts:
            return
        level = logging.INFO
        if self.without_producer or self.unreachable or self.refused:
            level = logging.WARNING
        if self.given_up or self.missing:
            level = logging.ERROR
        log.log(level, "check of half messages: %s", "; ".join(parts))


def _groups(counted: Counter[str]) -> str:
    """The groups with the most half messages."""
    listed = ", ".join(f"{group}: {count}" for group, count in counted.most_common(MOST_LISTED))
    return listed if len(counted) <= MOST_LISTED else f"{listed}, ..."


class Offsets(Protocol):
    """The committed offsets of groups."""

    def get(self, group: str, topic: str, queue_id: int) -> int: ...

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...


class Producer(Protocol):
    """A connection to a producer."""

    def oneway(self, command: Command) -> None: ...


class CheckRules(Protocol):
    """The options of a round, which may change at run time."""

    @property
    def transaction_time_out_ms(self) -> int: ...

    @property
    def transaction_check_max(self) -> int: ...

    @property
    def file_reserved_time_hours(self) -> int: ...


def immunity_ms(properties: dict[str, str], timeout_ms: int) -> int:
    """The age at which the producer is asked about a half message; a property of the message may set it."""
    said = _number(properties.get(CHECK_IMMUNITY_SECONDS, ""))
    return timeout_ms if said is None else said * 1000


def check_times(properties: dict[str, str]) -> int:
    """How often a half message was checked."""
    return _number(properties.get(TRANSACTION_CHECK_TIMES, "")) or 0


def _number(text: str) -> int | None:
    """A number that a producer wrote; None for anything else, also for more digits than Python converts."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def is_hopeless(properties: dict[str, str]) -> bool:
    """Whether a half message can never be decided: it names no producer group, no real topic or no real queue."""
    return (
        not properties.get(PRODUCER_GROUP)
        or not is_valid_name(properties.get(REAL_TOPIC, ""))
        or not properties.get(REAL_QUEUE_ID, "").isdecimal()
    )


def question(half: Unit, copy: Unit) -> Command:
    """The request to a producer: the message as it would be committed, and the offsets of its newest copy."""
    properties = properties_of(copy)
    unique_key = properties.get(UNIQUE_KEY)
    header = CheckTransactionStateRequest(
        tran_state_table_offset=copy.queue_offset,
        commit_log_offset=copy.physical_offset,
        msg_id=unique_key,
        transaction_id=unique_key,
        offset_msg_id=offset_id(copy.store_host, copy.physical_offset),
    )
    shown = copy_of(
        copy,
        properties[REAL_TOPIC],
        int(properties[REAL_QUEUE_ID]),
        properties,
        queue_offset=copy.queue_offset,
        physical_offset=copy.physical_offset,
        store_time=half.store_time,
    )
    return Command(RequestCode.CHECK_TRANSACTION_STATE, header.fields(), encode_unit(shown))


class TransactionCheck:
    """A round checks the undecided half messages, oldest first, up to the first that is too young.

    A half message that is checked is stored again at the end of the queue, as in Apache's broker, so that an undecided
    one does not block the others.
    """

    def __init__(
        self,
        queue: HalfQueue,
        store: HalfLog,
        put: Callable[[Unit], PutResult],
        offsets: Offsets,
        producer: Callable[[str, str], Producer | None],
        rules: Callable[[], CheckRules],
        clock: Clock,
        give_up_topic: Callable[[], None] = lambda: None,
        flushed: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._queue = queue
        self._store = store
        self._put = put
        self._offsets = offsets
        self._producer = producer
        self._rules = rules
        self._clock = clock
        self._give_up_topic = give_up_topic
        self._flushed = flushed
        self._report = RoundReport()
        self._is_cut = False  # messages that moved the fronts are gone from the log
        self.asked = 0
        self.given_up = 0

    # Recovery.

    def load(self) -> None:
        """Start at the committed fronts of the half and the op queue."""
        self._is_cut = False
        self._queue.half = self._front(HALF_TOPIC)
        self._queue.op = self._front(HALF_OP_TOPIC)

    async def recover(self) -> None:
        """Read the op queue from its front on, and the copies among the undecided half messages."""
        first = max(self._store.min_offset(HALF_OP_TOPIC, HALF_QUEUE), self._queue.op - RECENT // 5, 0)
        await self._read(HALF_OP_TOPIC, first, self._take_op)
        await self._read(HALF_TOPIC, self._queue.half, self._take_half)

    def _front(self, topic: str) -> int:
        low = max(0, self._store.min_offset(topic, HALF_QUEUE))
        high = max(low, self._store.max_offset(topic, HALF_QUEUE))
        return min(max(self._offsets.get(CHECK_GROUP, topic, HALF_QUEUE), low), high)

    async def _read(self, topic: str, offset: int, take: Callable[[int, Unit], None]) -> None:
        while True:
            entries = self._store.queue_entries(topic, HALF_QUEUE, offset, BATCH)
            if not entries:
                return
            for physical, _, _ in entries:
                unit = self._store.unit_at(physical)
                if unit is not None:
                    take(offset, unit)
                offset += 1
            await asyncio.sleep(0)

    def _take_op(self, offset: int, unit: Unit) -> None:
        if not unit.body.isdigit():
            log.error("op message %d names no half message", offset)
            return
        half_offset = int(unit.body)
        half = self._half_at(half_offset)
        self._queue.decided(identity(half) if half is not None else str(half_offset), half_offset, offset)

    def _take_half(self, offset: int, unit: Unit) -> None:
        if not self._queue.is_decided(identity(unit)):
            self._queue.copied(identity(unit), offset)

    def _half_at(self, offset: int) -> Unit | None:
        entries = self._store.queue_entries(HALF_TOPIC, HALF_QUEUE, offset, 1)
        return self._store.unit_at(entries[0][0]) if entries else None

    # A round.

    async def round(self) -> None:
        """Check every undecided half message that is old enough; commit the fronts and log the result."""
        self._report = RoundReport()
        start = self._clock.monotonic()
        end = self._store.max_offset(HALF_TOPIC, HALF_QUEUE)  # copies stored by this round are checked in the next
        low = self._store.min_offset(HALF_TOPIC, HALF_QUEUE)
        if self._queue.half < low:
            self._queue.jump(low)
        looked = 0
        while self._clock.monotonic() - start <= LONGEST and self._look(end):
            looked += 1
            if looked % BATCH == 0:
                await asyncio.sleep(0)
        await self.keep()
        self._report.write()

    def cut(self, _: int) -> None:
        """The log lost its end: the fronts here may be ahead of what it decides, and count no more until `load`."""
        self._is_cut = True

    async def keep(self) -> None:
        """Commit both fronts as Apache's broker does, once the copies that moved them are on the disk.

        In the opposite order a power cut would lose a half message that counts as stored again.
        """
        half, op = self._queue.half, self._queue.op
        if (self._flushed is None or await self._flushed()) and not self._is_cut:
            self._offsets.reset(CHECK_GROUP, HALF_TOPIC, HALF_QUEUE, half)
            self._offsets.reset(CHECK_GROUP, HALF_OP_TOPIC, HALF_QUEUE, op)

    def _look(self, end: int) -> bool:
        """Check the oldest undecided half message; False when it, and so all after it, must wait."""
        self._queue.advance()
        offset = self._queue.half
        if offset >= end:
            return False
        half = self._half_at(offset)
        key = identity(half) if half is not None else str(offset)
        try:
            done = self._queue.is_decided(key) or self._check(offset, half)
        except Exception:
            log.exception("half message %d cannot be checked and is skipped", offset)
            done = True
        if done:
            self._queue.passed(key)
        return done

    def _check(self, offset: int, half: Unit | None) -> bool:
        if half is None:
            self._report.missing += 1
            return True
        properties = properties_of(half)
        age = self._clock.now_ms() - half.born_time
        if self._is_over(properties, age):
            return self._give_up(offset, half, properties)
        young = 0 <= age < immunity_ms(properties, self._rules().transaction_time_out_ms)
        if young and CHECK_IMMUNITY_SECONDS not in properties:
            return False
        if self._put_off(half, properties) if young else self._ask(half, properties):
            return True
        if self._report.refused != PutStatus.PROPERTIES_TOO_LONG.name:
            return False
        self._report.refused = ""
        self._tell(half, half)  # it has no room for what a copy adds: ask once, and let the others go on
        return self._give_up(offset, half, properties_of(half))

    def _is_over(self, properties: dict[str, str], age_ms: int) -> bool:
        rules = self._rules()
        too_often = check_times(properties) >= rules.transaction_check_max
        return too_often or is_hopeless(properties) or age_ms > rules.file_reserved_time_hours * 3_600_000

    def _give_up(self, offset: int, half: Unit, properties: dict[str, str]) -> bool:
        """Move a half message to the check-max topic, for operators."""
        self._give_up_topic()
        noted = dict(properties)
        note_first(half, noted)
        result = self._put(copy_of(half, CHECK_MAX_TIME_TOPIC, 0, noted))
        if result.status is PutStatus.PROPERTIES_TOO_LONG:
            result = self._put(copy_of(half, CHECK_MAX_TIME_TOPIC, 0, properties))
        if result.status not in STORED:
            log.error("half message %d cannot be moved to %s: %s", offset, CHECK_MAX_TIME_TOPIC, result.status.name)
            return False
        self.given_up += 1
        self._report.given_up += 1
        if len(self._report.examples) < MOST_LISTED:
            self._report.examples.append(properties.get(UNIQUE_KEY) or f"offset {offset}")
        return True

    def _put_off(self, half: Unit, properties: dict[str, str]) -> bool:
        """Store an immune message again at the end of the queue, without counting a check."""
        return self._again(half, properties) is not None

    def _ask(self, half: Unit, properties: dict[str, str]) -> bool:
        properties[TRANSACTION_CHECK_TIMES] = str(check_times(properties) + 1)
        copy = self._again(half, properties)
        if copy is None:
            return False
        self._tell(half, copy)
        return True

    def _tell(self, half: Unit, copy: Unit) -> None:
        """Ask a producer about a half message and its newest copy."""
        properties = properties_of(half)
        producer = self._producer(properties[PRODUCER_GROUP], properties[REAL_TOPIC])
        if producer is None:
            self._report.without_producer[properties[PRODUCER_GROUP]] += 1
            return
        try:
            producer.oneway(question(half, copy))
        except RemotingError:
            self._report.unreachable[properties[PRODUCER_GROUP]] += 1
        else:
            self.asked += 1
            self._report.asked += 1

    def _again(self, half: Unit, properties: dict[str, str]) -> Unit | None:
        """Store a half message again; return the stored copy, or None when the store refuses."""
        note_first(half, properties)
        copy = copy_of(half, HALF_TOPIC, HALF_QUEUE, properties)
        result = self._put(copy)
        if result.status not in STORED:
            self._report.refused = result.status.name
            return None
        copy.properties = packed(properties)
        copy.queue_offset, copy.physical_offset = result.queue_offset, result.physical_offset
        self._queue.copied(identity(copy), result.queue_offset)
        return copy
