"""Pulling: entries of one queue, and the messages they point to, under RocketMQ's limits."""

from typing import Final

from ariane.store.consumequeue import ConsumeQueue
from ariane.store.layout import BLANK_SIZE, ENTRY, ENTRY_SIZE
from ariane.store.log import Log
from ariane.store.options import StoreOptions
from ariane.store.results import GetResult, GetStatus, MessageFilter
from ariane.store.scan import properties_of

_FILTER_BUDGET: Final = 16_000 // ENTRY_SIZE  # entries that one pull looks at when a filter lets few through


class Puller:
    """Answers pulls. With `correct_offsets` off (a slave) a wrong offset is reported but given back unchanged."""

    def __init__(self, source: Log, options: StoreOptions) -> None:
        self.correct_offsets = True
        self._log = source
        self.set_options(options)

    def set_options(self, options: StoreOptions) -> None:
        self._memory = options.memory_for_messages
        self._memory_bytes = options.max_transfer_bytes_memory
        self._memory_count = options.max_transfer_count_memory
        self._disk_bytes = options.max_transfer_bytes_disk
        self._disk_count = options.max_transfer_count_disk

    def get(
        self, queue: ConsumeQueue | None, offset: int, most: int, wanted: MessageFilter | None, most_bytes: int
    ) -> GetResult:
        if queue is None:
            return self._miss(GetStatus.NO_MATCHED_LOGIC_QUEUE, offset, 0, 0, 0)
        low = queue.min_offset
        high = queue.max_offset
        if high == 0:
            return self._miss(GetStatus.NO_MESSAGE_IN_QUEUE, offset, 0, low, high)
        if offset < low:
            return self._miss(GetStatus.OFFSET_TOO_SMALL, offset, low, low, high)
        if offset == high:
            return self._miss(GetStatus.OFFSET_OVERFLOW_ONE, offset, offset, low, high)
        if offset > high:
            return self._miss(GetStatus.OFFSET_OVERFLOW_BADLY, offset, high, low, high)
        looked_at = most + 1 if wanted is None else max(_FILTER_BUDGET, most)
        entries = queue.entries(offset, min(looked_at, high - offset))
        if not entries:
            return self._miss(GetStatus.OFFSET_FOUND_NULL, offset, queue.roll(offset), low, high)
        result = GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, low, high)
        self._collect(result, entries, most, wanted, most_bytes)
        return result

    def _miss(self, status: GetStatus, offset: int, better: int, low: int, high: int) -> GetResult:
        return GetResult(status, better if self.correct_offsets else offset, low, high)

    def _collect(
        self, result: GetResult, entries: bytes, most: int, wanted: MessageFilter | None, most_bytes: int
    ) -> None:
        """Take messages until a limit is reached. The first one is taken whatever its size."""
        end = self._log.end
        in_memory = end - self._memory  # messages before this count as being on the disk
        skip_until = -1  # a message is gone: so are all others of its file
        run_start = run_end = -1  # neighbours in the log go into one slice
        physical = count = size_so_far = looked_at = 0
        for physical, size, code in ENTRY.iter_unpack(entries):
            if physical >= skip_until and size != BLANK_SIZE:
                if count and self._full(count, size_so_far + size, most, physical < in_memory, most_bytes):
                    break
                if wanted is None or (wanted.matches_code(code) and self._matches(wanted, physical, size)):
                    if physical == run_end:
                        if self._log.view(physical, size) is None:
                            break
                        run_end += size
                    else:
                        self._emit(result, run_start, run_end)
                        if self._log.view(physical, size) is None:
                            run_start = run_end = -1
                            skip_until = self._gone(result, physical, count)
                            looked_at += 1
                            continue
                        run_start = physical
                        run_end = physical + size
                    count += 1
                    size_so_far += size
            looked_at += 1
        self._emit(result, run_start, run_end)
        self._finish(result, count, size_so_far, looked_at, end - physical)

    def _full(self, count: int, size: int, most: int, on_disk: bool, most_bytes: int) -> bool:
        if count >= most or size > most_bytes:
            return True
        if on_disk:
            return size > self._disk_bytes or count >= self._disk_count
        return size > self._memory_bytes or count >= self._memory_count

    def _matches(self, wanted: MessageFilter, physical: int, size: int) -> bool:
        unit = self._log.view(physical, size)
        return unit is None or wanted.matches_message(properties_of(unit))

    def _gone(self, result: GetResult, physical: int, count: int) -> int:
        if count == 0:
            result.status = GetStatus.MESSAGE_WAS_REMOVING
        return self._log.roll(physical)

    def _emit(self, result: GetResult, start: int, end: int) -> None:
        if start >= 0:
            view = self._log.view(start, end - start)
            if view is not None:
                result.slices.append(view)

    def _finish(self, result: GetResult, count: int, size: int, looked_at: int, behind: int) -> None:
        result.count = count
        result.bytes = size
        result.next_offset += looked_at
        result.suggest_slave = behind > self._memory
        if count:
            result.status = GetStatus.FOUND
