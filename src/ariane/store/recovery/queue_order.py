"""Checks the queue offsets of the units that recovery reads, and corrects the ones that are damaged.

No checksum covers the queue offset of a unit. A torn write cannot change it alone: it is between the magic and the
physical offset, within one sector of one of them. A whole unit whose queue offset is not the next one of its queue is
therefore either a legal exception or a damaged offset. Its value is

- 0: the topic was deleted and created again, its queues start over;
- less than expected: the message is in the log twice;
- more than expected: messages of the queue are missing from the log (a store of another broker).

The consume queue on disk and the next message of the same queue decide which. Where neither does, recovery takes the
choice that loses no message.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ariane.protocol.units import MIN_UNIT
from ariane.store.queue.consumequeue import ConsumeQueue, first_at
from ariane.store.units.reading import Dispatched, is_in_queue

_UNKNOWN: Final = -1
LEFT_OUT: Final = -1


class QueueOrder:
    """The offsets of units read in log order from `start` on.

    `units_from` reads units from a position to the end of the log. After a clean stop (`queues_complete`) the consume
    queues are complete, and they alone decide.
    """

    def __init__(
        self, start: int, log_min: int, units_from: Callable[[int], Iterator[Dispatched]], *, queues_complete: bool
    ) -> None:
        self._start = start
        self._from_zero = start == log_min == 0
        self._units_from = units_from
        self._queues_complete = queues_complete
        self._expected: dict[ConsumeQueue, int] = {}
        self._last: dict[ConsumeQueue, Dispatched] = {}
        self._corrected: dict[int, int] | None = None
        self._gaps: set[tuple[ConsumeQueue, int]] = set()  # offsets that no unit has
        self._rivals: list[Dispatched] = []  # units with the same queue and offset as the unit before them
        self._moved: dict[int, ConsumeQueue] = {}

    def place_of(self, unit: Dispatched) -> tuple[ConsumeQueue, int]:
        """The queue of a unit and its offset there; LEFT_OUT when it has no place. Call it for all units in order.

        The first unexpected offset reads the rest of the log once; it decides about all later ones too.
        """
        if not _has_place(unit):
            return unit.queue, unit.queue_offset
        if self._corrected is None:
            expected = self._next_of(unit.queue)
            if unit.queue_offset == expected or (expected == _UNKNOWN and unit.queue_offset == 0):
                self._accept(unit, unit.queue_offset)
                return unit.queue, unit.queue_offset
            self._corrected = self._resolve(self._units_from(unit.physical_offset))
        at = unit.physical_offset
        return self._moved.get(at, unit.queue), self._corrected.get(at, unit.queue_offset)

    def _next_of(self, queue: ConsumeQueue) -> int:
        expected = self._expected.get(queue)
        if expected is None:
            if queue.files:
                expected = first_at(queue, queue.min_offset, queue.max_offset, self._start)
            else:
                expected = 0 if self._from_zero else _UNKNOWN
            self._expected[queue] = expected
        return expected

    def _accept(self, unit: Dispatched, offset: int) -> None:
        expected = self._expected[unit.queue]
        self._expected[unit.queue] = 1 if offset == 0 else max(expected, offset + 1)
        self._last[unit.queue] = unit

    def _resolve(self, units: Iterator[Dispatched]) -> dict[int, int]:
        """The corrected queue offsets of all units with a wrong one, by physical offset."""
        corrected: dict[int, int] = {}
        waiting: dict[ConsumeQueue, Dispatched] = {}  # undecided until the next unit of the queue
        for unit in units:
            if not _has_place(unit):
                continue
            before = waiting.pop(unit.queue, None)
            if before is not None:
                self._settle(before, unit.queue_offset, corrected)
            expected = self._next_of(unit.queue)
            if unit.queue_offset == expected or (expected == _UNKNOWN and unit.queue_offset == 0):
                self._accept(unit, unit.queue_offset)
            else:
                waiting[unit.queue] = unit
        for unit in self._rivals:
            self._move(unit)
        for unit in waiting.values():
            if unit.queue_offset == self._expected[unit.queue]:
                self._accept(unit, unit.queue_offset)
            else:
                self._settle(unit, None, corrected)
        return corrected

    def _move(self, unit: Dispatched) -> None:
        """Give one of two units with the same offset to the queue that lacks it, if their ids differ in one bit."""
        for queue, expected in self._expected.items():
            lacks = (queue, unit.queue_offset) in self._gaps or expected == unit.queue_offset
            if lacks and queue.topic == unit.topic and _one_bit_apart(queue.queue_id, unit.queue_id):
                self._gaps.discard((queue, unit.queue_offset))
                self._expected[queue] = max(expected, unit.queue_offset + 1)
                self._moved[unit.physical_offset] = queue
                return

    def _settle(self, unit: Dispatched, following: int | None, corrected: dict[int, int]) -> None:
        offset = self._decide(unit, self._expected[unit.queue], following)
        if offset != unit.queue_offset:
            corrected[unit.physical_offset] = offset
        if offset != LEFT_OUT:
            expected = self._expected[unit.queue]
            if offset == expected + 1:
                self._gaps.add((unit.queue, expected))
            self._accept(unit, offset)

    def _decide(self, unit: Dispatched, expected: int, following: int | None) -> int:
        stated = unit.queue_offset
        most = unit.physical_offset // MIN_UNIT  # the most units that fit into the log before this one
        if expected >= 0 and _points_to(unit, expected):
            return expected
        if self._queues_complete or _points_to(unit, stated):
            return stated
        if expected == _UNKNOWN:
            return _first_offset(stated, following, most)
        if following == expected + 1:
            return expected
        if following == stated + 1:
            if stated == expected - 1 and not self._is_repeated(unit):
                self._rivals.append(unit)
            return stated
        if not 0 <= stated <= most:
            return expected
        if following == expected:
            return LEFT_OUT  # the queue continues without it: it is a duplicate, or its topic or queue id is damaged
        if stated < expected:
            if stated == 0 and not _one_bit_apart(stated, expected):
                return 0
            return stated if self._is_repeated(unit) else expected
        return expected if _one_bit_apart(stated, expected) else stated

    def _is_repeated(self, unit: Dispatched) -> bool:
        last = self._last.get(unit.queue)
        return last is not None and (last.queue_offset, last.size, last.properties) == (
            unit.queue_offset,
            unit.size,
            unit.properties,
        )


def _has_place(unit: Dispatched) -> bool:
    return is_in_queue(unit.sys_flag) and unit.queue.queue_id >= 0


def _first_offset(stated: int, following: int | None, most: int) -> int:
    """The offset of the first unit of a queue that has no other evidence."""
    if following is not None and _one_bit_apart(stated, following - 1):
        return following - 1
    if stated < 0:
        stated += 1 << 63
    while stated > most:  # a flipped bit, the highest
        stated ^= 1 << stated.bit_length() - 1
    return stated


def _points_to(unit: Dispatched, offset: int) -> bool:
    """Whether the entry with this number in the file of the consume queue is the unit's."""
    entry = unit.queue.stored_entry(offset)
    return entry is not None and entry[:2] == (unit.physical_offset, unit.size)


def _one_bit_apart(one: int, other: int) -> bool:
    return (one ^ other).bit_count() == 1
