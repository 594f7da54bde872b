"""Store folders as streams: read what a running broker writes, without asking it."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ariane.env import Clock, SystemClock
from ariane.errors import StoreError
from ariane.spark.arrow.scan import End, find_sync, hop
from ariane.spark.arrow.schema import arrow_schema
from ariane.spark.commitlog.log_files import Bytes, LogFile, commitlog_folder, log_files, open_bytes
from ariane.spark.commitlog.log_reader import LogRange, log_end
from ariane.spark.commitlog.options import CommitlogOptions
from ariane.spark.commitlog.reader import LogPartition, read_partition

_IDLE_MS = 200  # pause between checks while files do not grow


class CommitlogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are positions in each store's log, always between two units."""

    def __init__(self, options: CommitlogOptions, schema: StructType, clock: Clock | None = None) -> None:
        self.options = options
        self.schema = arrow_schema(schema)
        self._clock = clock or SystemClock()
        self._to_the_present = False  # Trigger.AvailableNow: the first end is the last
        self._target: dict[str, int] | None = None
        self._looked: tuple[int, dict[str, int]] = (0, {})

    def initialOffset(self) -> dict[str, Any]:
        return {store: _files(store)[0].base for store in self.options.stores}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit: ReadLimit = ReadAllAvailable()
        return limit if self.options.max_bytes is None else ReadMaxBytes(self.options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        self._to_the_present = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        ends = self._target if self._target is not None else self._ends(start)
        if self._to_the_present:
            self._target = ends
        if isinstance(limit, ReadMaxBytes):
            share = limit.max_bytes // len(self.options.stores)
            return {store: _limited(store, start.get(store, 0), end, share) for store, end in ends.items()}
        return {store: max(end, start.get(store, 0)) for store, end in ends.items()}

    def _ends(self, start: dict[str, Any]) -> dict[str, int]:
        at, ends = self._looked
        now = self._clock.now_ms()
        if now - at >= _IDLE_MS or any(start.get(store, 0) != end for store, end in ends.items()):
            ends = {
                store: log_end(_files(store), start.get(store, 0), fail=self.options.fail)
                for store in self.options.stores
            }
            self._looked = (now, ends)
        return ends

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._target or self._looked[1] or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [
            LogPartition(part)
            for store, stop in end.items()
            for part in _ranges(store, start.get(store, 0), stop, self.options)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema)


def _files(store: str) -> list[LogFile]:
    return log_files(commitlog_folder(store))


def _limited(store: str, start: int, end: int, most: int) -> int:
    """The last unit boundary within a number of bytes, or the end of the first unit."""
    at = start
    for file in _files(store):
        if file.end <= at or at >= min(start + most, end):
            continue
        at = max(at, file.base)
        data = open_bytes(file, 0, file.size)
        stop = min(start + most, end, file.end) - file.base
        found = hop(data.view, at - file.base, max(stop, at - file.base + 1))
        if found.why is End.TORN and file.base + found.end == at:
            return min(_behind(file, data, at), end)
        at = file.base + found.end
        if found.why is End.TORN:
            break  # the next batch begins with the damage
        if found.why is End.BLANK and file.end < end:
            at = file.end
    return min(at, end)


def _behind(file: LogFile, data: Bytes, at: int) -> int:
    """The next unit after damage, which is an error or skipped."""
    again = find_sync(data.view, data.base, at - file.base + 1, file.size)
    return file.base + again if again >= 0 else file.end


def _ranges(store: str, start: int, stop: int, options: CommitlogOptions) -> list[LogRange]:
    files = _files(store)
    if start < files[0].base:
        if options.fail:
            raise StoreError(
                f"{store}: the log begins at {files[0].base} now, what was before and after {start} is deleted; "
                "failOnDataLoss=false goes on with what is there"
            )
        start = files[0].base
    found: list[LogRange] = []
    for file in files:
        first, last = max(start, file.base) - file.base, min(stop, file.end) - file.base
        found += (
            LogRange(file, at, min(at + options.split, last), file.end > stop, at == first)
            for at in range(first, last, options.split)
        )
    return found
