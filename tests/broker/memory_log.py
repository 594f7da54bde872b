"""A log in memory, for the rules of delay and transactions: what is put is there, unless the test says otherwise."""

from collections import defaultdict

from ariane.broker.unit_copy import properties_of, topic_of
from ariane.env import Clock
from ariane.message import DELAY, SCHEDULE_TOPIC, TIMER_TOPIC, UNIQUE_KEY
from ariane.protocol.units import Unit, decode_unit, encode_unit
from ariane.store.batches import MAX_PROPERTIES
from ariane.store.dispatch import timer_code
from ariane.store.results import PutResult, PutStatus, QueryResult


class MemoryLog:
    """Units by physical offset, queues by topic and number. `refuse` makes puts fail with a status."""

    def __init__(self, clock: Clock, delays_ms: tuple[int, ...] = ()) -> None:
        self._clock = clock
        self._delays_ms = delays_ms
        self._units: dict[int, bytes] = {}
        self._queues: defaultdict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
        self._first: dict[tuple[str, int], int] = {}
        self.end = 0
        self.log_min = 0
        self.flushed_offset = 0
        self.refuse: PutStatus | None = None

    def put(self, unit: Unit) -> PutResult:
        if self.refuse is not None:
            return PutResult(self.refuse)
        if len(unit.properties) > MAX_PROPERTIES:
            return PutResult(PutStatus.PROPERTIES_TOO_LONG)
        queue = self._queues[topic_of(unit), unit.queue_id]
        unit.physical_offset, unit.queue_offset = self.end, len(queue)
        unit.store_time = self._clock.now_ms()
        data = encode_unit(unit)
        self._units[self.end] = data
        queue.append((self.end, len(data), self._code(unit)))
        self.end += len(data)
        return PutResult(PutStatus.OK, unit.physical_offset, len(data), unit.queue_offset, unit.store_time)

    def _code(self, unit: Unit) -> int:
        if topic_of(unit) == TIMER_TOPIC:
            return timer_code(unit.properties)
        if topic_of(unit) != SCHEDULE_TOPIC:
            return 0
        return unit.store_time + self._delays_ms[int(properties_of(unit)[DELAY]) - 1]

    def lose(self, physical_offset: int) -> None:
        """The bytes of a unit are gone, its queue entry is not."""
        del self._units[physical_offset]

    def expire(self, topic: str, queue_id: int, first: int) -> None:
        """Retention removed all entries before `first`."""
        self._first[topic, queue_id] = first

    def cut(self, end: int) -> None:
        """A crash lost everything from `end` on."""
        self.end = end
        self._units = {at: data for at, data in self._units.items() if at < end}
        for queue in self._queues.values():
            queue[:] = [entry for entry in queue if entry[0] < end]

    def expire_before(self, end: int) -> None:
        """Retention removed all units before `end`, and the queue entries that point to them."""
        self.log_min = end
        self._units = {at: data for at, data in self._units.items() if at >= end}
        for key, queue in self._queues.items():
            self._first[key] = sum(entry[0] < end for entry in queue)

    def positions(self) -> list[int]:
        """Where units begin, and the end."""
        return [*self._units, self.end]

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self._first.get((topic, queue_id), 0)

    def max_offset(self, topic: str, queue_id: int) -> int:
        return len(self._queues[topic, queue_id])

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        if offset < self.min_offset(topic, queue_id):
            return []
        return self._queues[topic, queue_id][offset : offset + count]

    def unit_at(self, physical_offset: int) -> Unit | None:
        data = self._units.get(physical_offset)
        return None if data is None else decode_unit(data)

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryResult:
        found = []
        for data in self._units.values():
            unit = decode_unit(data)
            in_time = begin_ms <= unit.store_time <= end_ms
            if topic_of(unit) == topic and properties_of(unit).get(UNIQUE_KEY) == key and in_time:
                found.append(memoryview(data))
        return QueryResult(found[: -max_count - 1 : -1])

    def units(self, topic: str, queue_id: int = 0) -> list[Unit]:
        """What a consumer of a queue would see."""
        found = [self.unit_at(physical) for physical, _, _ in self._queues[topic, queue_id]]
        return [unit for unit in found if unit is not None]
