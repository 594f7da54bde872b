"""Byte ranges of log files to tables of units: what one Spark task reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ariane.errors import StoreError
from ariane.spark.arrow.scan import End, Hop, find_sync, hop, in_sync
from ariane.spark.arrow.unit_table import UnitTable
from ariane.spark.commitlog.log_files import Bytes, LogFile, open_bytes
from ariane.spark.file_systems import is_remote

BATCH_ROWS: Final = 1 << 14  # fits into a core's cache
BATCH_BYTES: Final = 32 << 20
_LONGEST_UNIT: Final = 8 << 20  # read past the range of a remote file, for the unit that crosses its end
_ZEROS: Final = 64 << 10  # so many zeros after a unit are the unwritten rest of the log


@dataclass(frozen=True)
class LogRange:
    """The units that begin in bytes [start, stop) of a file."""

    file: LogFile
    start: int
    stop: int
    last: bool  # no later file has messages: it may end inside a unit
    between: bool  # the start is a unit boundary


def read_range(part: LogRange, *, fail: bool) -> Iterator[UnitTable]:
    """The units of a range, batch by batch.

    A torn unit at the end of the log is not there. Damage anywhere else is an error, or skipped when `fail` is false.
    """
    data = open_bytes(part.file, part.start, part.stop + _LONGEST_UNIT)
    shift = part.file.base - data.base  # 0 for a mapped file
    at, stop = part.start + shift, part.stop + shift
    if not part.between and not in_sync(data.view, data.base, at):
        at = find_sync(data.view, data.base, at, stop)
    while 0 <= at < stop:
        found = hop(data.view, at, min(stop, at + BATCH_BYTES), BATCH_ROWS)
        table = good_units(data, found)
        if len(table):
            yield table
        whole = len(table) == len(found.starts)
        if whole and found.why is End.BLANK:
            return
        if whole and found.why is End.ENOUGH:
            at = found.end
        else:
            at = _behind_damage(part, data, found.end if whole else int(found.starts[len(table)]), fail)


def good_units(data: Bytes, found: Hop) -> UnitTable:
    """The units up to the first that is malformed or states another physical offset."""
    table = UnitTable(data.view, found.starts)
    count = table.well_formed()
    if count < len(table):
        table = UnitTable(data.view, found.starts[:count])
    in_place = table.physical_offsets == data.base + table.starts
    return table if in_place.all() else UnitTable(data.view, table.starts[: int(np.argmin(in_place))])


def _behind_damage(part: LogRange, data: Bytes, at: int, fail: bool) -> int:
    """The next unit after damage; -1 at the end of the log."""
    again = _next_unit(data, at + 1, part.last)
    if again < 0 and part.last:
        return -1
    if len(good_units(data, hop(data.view, at, at + 1))):
        return at  # a running broker has written it meanwhile
    if fail:
        begin, end = data.base + at, data.base + (again if again >= 0 else len(data.view))
        raise StoreError(
            f"{part.file.path}: bytes {begin} to {end} of the log are damaged; failOnDataLoss=false skips them"
        )
    return again


def _next_unit(data: Bytes, at: int, last: bool) -> int:
    """Where the next unit begins, or -1. In the last file more zeros than a unit can have were never written to."""
    stride = _LONGEST_UNIT if last else len(data.view)
    for begin in range(at, len(data.view), stride):
        if last and not np.frombuffer(data.view[begin : begin + stride], dtype=np.uint8).any():
            return -1
        found = find_sync(data.view, data.base, begin, begin + stride)
        if found >= 0:
            return found
    return -1


def is_blank(view: memoryview, at: int) -> bool:
    """Whether this part was never written: zeros to the end, or for a long stretch."""
    window = np.frombuffer(view[at : at + _ZEROS], dtype=np.uint8)
    return not window.any()


def written_files(files: list[LogFile]) -> list[LogFile]:
    """Files up to the last with a message; brokers preallocate the next ones."""
    written = list(files)
    while written and is_blank(open_bytes(written[-1], 0, _ZEROS).view, 0):
        written.pop()
    return written


def log_end(files: list[LogFile], known: int, *, fail: bool) -> int:
    """Where the log ends: behind the last whole unit. Everything before `known` is known to be whole.

    Damage before the end is an error, or gone over when `fail` is false, as it is in reading.
    """
    written = written_files(files)
    if not written:
        return max(known, files[0].base)
    last = written[-1]
    data = open_bytes(last, 0, last.size)
    part = LogRange(last, max(known - last.base, 0), last.size, last=True, between=True)
    end, at = part.start, part.start
    while 0 <= at < last.size:
        end, why = _end_of_units(data, at)
        at = -1 if why is End.BLANK else _behind_damage(part, data, end, fail)
    return last.base + end


def _end_of_units(data: Bytes, at: int) -> tuple[int, End]:
    """The end of the units that start here, and the reason."""
    why = End.ENOUGH
    while why is End.ENOUGH and at < len(data.view):
        found = hop(data.view, at, len(data.view), BATCH_ROWS)
        table = good_units(data, found)
        if len(table) < len(found.starts):
            return int(found.starts[len(table)]), End.TORN
        at, why = found.end, found.why
    return at, why


def plan_ranges(files: list[LogFile], last: LogFile, split: int) -> list[LogRange]:
    """Split files into ranges of about `split` bytes. `last` is the end of the log."""
    return [part for file in files for part in _pieces(file, file == last, split)]


def _pieces(file: LogFile, last: bool, split: int) -> list[LogRange]:
    """Split one file; the last range of the last file includes its unwritten rest."""
    starts = range(0, max(about_used(file), 1) if last else file.size, split)
    return [LogRange(file, at, file.size if at == starts[-1] else at + split, last, at == 0) for at in starts]


def about_used(last: LogFile) -> int:
    """About how much of the last file is written to, found without reading it: only sizes of pieces hang on it.

    A remote file is not looked into from here: its empty parts are tasks with little to do.
    """
    if is_remote(last.path):
        return last.size
    view = open_bytes(last, 0, last.size).view
    written, blank = 0, last.size
    while blank - written > _ZEROS:
        middle = (written + blank) // 2
        written, blank = (written, middle) if is_blank(view, middle) else (middle, blank)
    return blank
