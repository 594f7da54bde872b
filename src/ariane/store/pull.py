"""Pulls messages of one queue under RocketMQ's limits."""

from typing import Final

from ariane.protocol.native import i64
from ariane.store.log.log import Log
from ariane.store.options import StoreOptions
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.entries import BLANK_SIZE, ENTRY_SIZE, entry_at
from ariane.store.results import GetResult, GetStatus, MessageFilter

_NOTHING: Final = memoryview(b"")
_FILTER_BUDGET: Final = 16_000 // ENTRY_SIZE  # entries that one filtered pull examines


class Puller:
    """Serves pulls. With `correct_offsets` off (a slave) a wrong offset is reported but returned unchanged."""

    def __init__(self, source: Log, options: StoreOptions) -> None:
        self.correct_offsets = True
        self._log = source
        self.set_options(options)

    def set_options(self, options: StoreOptions) -> None:
        self._memory: i64 = options.memory_for_messages
        self._memory_bytes: i64 = options.max_transfer_bytes_memory
        self._memory_count: i64 = options.max_transfer_count_memory
        self._disk_bytes: i64 = options.max_transfer_bytes_disk
        self._disk_count: i64 = options.max_transfer_count_disk

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
        """Collect messages up to a limit. The first one is taken whatever its size."""
        slices = result.slices
        by_properties = wanted if wanted is not None and wanted.needs_properties else None
        in_memory: i64 = self._log.end - self._memory  # messages before this count as being on the disk
        low: i64 = -1  # the part of the log that `memory` shows
        high: i64 = -1
        memory = _NOTHING
        skip_until: i64 = -1  # the message was deleted, and with it all others of its file
        start: i64 = 0  # adjacent units share one slice
        end: i64 = 0
        count: i64 = 0
        total: i64 = 0
        looked_at: i64 = 0
        physical: i64 = 0
        at: i64 = 0
        while at + ENTRY_SIZE <= len(entries):
            physical, size, tags_code = entry_at(entries, at)
            at += ENTRY_SIZE
            if size == BLANK_SIZE:
                looked_at += 1
                continue
            if count and self._is_full(count, total + size, most, most_bytes, physical < in_memory):
                break
            looked_at += 1
            if physical < skip_until or (wanted is not None and not wanted.matches_code(tags_code)):
                continue
            if physical < low or physical + size > high:
                if end > start:
                    slices.append(memory[start - low : end - low])
                    start = end = 0
                span = self._log.span(physical)
                if span is None or physical + size > span[1]:
                    skip_until = self._gone(result, physical)
                    continue
                low, high, memory = span
            if by_properties is not None and not self._matches(by_properties, memory, physical - low, size):
                continue
            if physical != end:
                if end > start:
                    slices.append(memory[start - low : end - low])
                start = physical
            end = physical + size
            count += 1
            total += size
        if end > start:
            slices.append(memory[start - low : end - low])
        self._finish(result, count, total, looked_at, self._log.end - physical)

    def _is_full(self, count: i64, total: i64, most: i64, most_bytes: i64, on_disk: bool) -> bool:
        if count >= most or total > most_bytes:
            return True
        if on_disk:
            return total > self._disk_bytes or count >= self._disk_count
        return total > self._memory_bytes or count >= self._memory_count

    @staticmethod
    def _matches(wanted: MessageFilter, memory: memoryview, at: int, size: int) -> bool:
        return wanted.matches_unit(memory[at : at + size])

    def _gone(self, result: GetResult, physical: int) -> int:
        result.status = GetStatus.MESSAGE_WAS_REMOVING
        return self._log.roll(physical)

    def _finish(self, result: GetResult, count: int, size: int, looked_at: int, behind: int) -> None:
        result.count = count
        result.bytes = size
        result.next_offset += looked_at
        result.behind = behind
        result.suggest_slave = behind > self._memory
        if count:
            result.status = GetStatus.FOUND
