"""Verifies a store: units, queue entries against units, index chains against both."""

import sys
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from math import inf
from pathlib import Path
from typing import NamedTuple

from ariane.env import Files
from ariane.message import SCHEDULE_TOPIC, TIMER_TOPIC
from ariane.store.checkpoint import Checkpoint
from ariane.store.dispatch import timer_code
from ariane.store.index.index import hashes_of
from ariane.store.index.index_file import HEADER, HEADER_SIZE, INDEX_ENTRY, INDEX_ENTRY_SIZE, SLOT_SIZE
from ariane.store.index.repair import index_names, index_shape
from ariane.store.layout import Layout
from ariane.store.offline.reading import Damage, Progress, StoredLog, no_progress, stored_entries, stored_queues
from ariane.store.queue.entries import BLANK_SIZE
from ariane.store.units.marks import value_of
from ariane.store.units.reading import Dispatched, is_in_queue

MAX_TOLD = 1000


@dataclass
class Findings:
    """The number of things checked, and the problems found."""

    messages: int = 0
    log_end: int = 0
    entries: int = 0
    index_entries: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    waiting: list[str] = field(default_factory=list)
    """What a store that was not stopped, or its backup, lacks and its next start completes from the log."""

    @property
    def ok(self) -> bool:
        return self.problem_count == 0

    def wrong(self, text: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_TOLD:
            self.problems.append(text)


def verify(files: Files, layout: Layout, slots: int, index_entries: int, progress: Progress = no_progress) -> Findings:
    """Check a whole store. `slots` and `index_entries` apply to index files whose own numbers cannot be derived."""
    findings = Findings()
    stored = StoredLog(files, layout)
    recovered = _recovered_from(files, layout)
    ends = _check_log(stored, findings, progress)
    lacking: dict[tuple[str, int], int] = {}
    for topic, queue_id, folder in stored_queues(files, layout):
        end = _check_queue(files, stored, topic, queue_id, folder, findings)
        if end < ends.get((topic, queue_id), 0):
            lacking[topic, queue_id] = end
        else:
            ends.pop((topic, queue_id), None)
    _tell_ends(stored, {queue: (lacking.get(queue, 0), end) for queue, end in ends.items()}, recovered, findings)
    shape = index_shape(files, layout.index, slots, index_entries, None)
    _check_index(files, layout, stored, shape, findings)
    return findings


def _recovered_from(files: Files, layout: Layout) -> float:
    """The time from which on the next start dispatches messages again: after a crash all that is not durable."""
    if not files.exists(layout.abort):
        return inf
    return Checkpoint.load(files, layout.checkpoint).safe_time(with_index=False)


def _check_log(stored: StoredLog, findings: Findings, progress: Progress) -> dict[tuple[str, int], int]:
    """Check all units; returns for each queue the offset after its last message."""
    ends: dict[tuple[str, int], int] = {}
    for found in stored.walk(progress):
        if isinstance(found, Damage):
            findings.wrong(f"log {found.start}: no whole message up to {found.end}")
            continue
        findings.messages += 1
        if found.queue is stored.table.nowhere:
            findings.wrong(f"log {found.physical_offset}: a message whose topic or queue has no valid name")
        elif is_in_queue(found.sys_flag):
            ends[found.topic, found.queue_id] = found.queue_offset + 1
    findings.log_end = stored.end
    return ends


def _tell_ends(
    stored: StoredLog, lacking: dict[tuple[str, int], tuple[int, int]], recovered: float, findings: Findings
) -> None:
    """Tell the queues that end before the log: where they end, and where they should."""
    lost: set[tuple[str, int]] = set()
    for unit in stored.walk() if lacking else ():
        if isinstance(unit, Dispatched) and is_in_queue(unit.sys_flag):
            queue = unit.topic, unit.queue_id
            if queue in lacking and unit.queue_offset >= lacking[queue][0] and unit.store_time <= recovered:
                lost.add(queue)
    for (topic, queue_id), (end, expected) in lacking.items():
        text = f"queue {topic}/{queue_id}: ends at {end}, the log has messages up to {expected}"
        findings.wrong(text) if (topic, queue_id) in lost else findings.waiting.append(text)


# -- queues -------------------------------------------------------------------------------------------------------


def _check_queue(files: Files, stored: StoredLog, topic: str, queue_id: int, folder: Path, findings: Findings) -> int:
    """Check each entry against its message; returns the number after the last."""
    end = 0
    for number, physical, size, code in stored_entries(files, folder):
        end = number + 1
        findings.entries += 1
        if size == BLANK_SIZE or physical < stored.min_offset:
            continue
        unit = stored.unit_at(physical)
        reason = "points to no message" if unit is None else _contradiction(unit, topic, queue_id, number, size, code)
        if reason:
            findings.wrong(f"queue {topic}/{queue_id} entry {number}: {reason} (log {physical})")
    return end


def _contradiction(unit: Dispatched, topic: str, queue_id: int, number: int, size: int, code: int) -> str:
    if (unit.topic, unit.queue_id) != (topic, queue_id):
        return f"points to a message of {unit.topic}/{unit.queue_id}"
    if unit.queue_offset != number:
        return f"points to a message with queue offset {unit.queue_offset}"
    if unit.size != size:
        return f"says {size} bytes, the message has {unit.size}"
    return "" if _is_code_of(unit, code) else f"has tags code {code}, which is not that of its message"


def _is_code_of(unit: Dispatched, code: int) -> bool:
    if unit.topic == SCHEDULE_TOPIC and value_of(unit.properties, b"DELAY\x01") is not None:
        return code >= unit.store_time  # a due time, not exact: the delay table is not part of the store
    if unit.topic == TIMER_TOPIC and (due := timer_code(unit.properties)):
        return code == due
    return code == unit.tags_code


# -- index --------------------------------------------------------------------------------------------------------


def _check_index(files: Files, layout: Layout, stored: StoredLog, shape: tuple[int, int], findings: Findings) -> None:
    names = index_names(files, layout.index)
    stopped = not files.exists(layout.abort)
    if not stopped:
        kept = _left_alone(files, layout, names, shape[1])
        findings.waiting += [f"index {name}: the next start checks and completes it" for name in names[len(kept) :]]
        names = kept
    found = chain.from_iterable(_check_chains(files, layout.index / name, shape, findings) for name in names)
    live = (entry for entry in found if entry.offset >= stored.min_offset)
    first = next(live, None)
    if first is not None:
        _check_keys(stored, first.offset, chain((first,), live), stopped, findings)
    deque(found, maxlen=0)  # when the keys are wrong, check the rest of the chains


def _left_alone(files: Files, layout: Layout, names: list[str], entries: int) -> list[str]:
    """The index files that a start after a crash takes as they are: full ones that are older than the checkpoint."""
    durable = Checkpoint.load(files, layout.checkpoint).index_time
    for number, name in enumerate(names):
        with closing(files.open(layout.index / name)) as file:
            header = file.pread(0, HEADER_SIZE)
        _, end_time, _, _, _, count = HEADER.unpack(header) if len(header) == HEADER_SIZE else (0,) * 6
        if end_time > durable or count < entries or number == len(names) - 1:
            return names[:number]
    return names


class Entry(NamedTuple):
    """One entry of an index file."""

    key_hash: int
    offset: int
    file: str
    number: int


def _check_chains(files: Files, path: Path, shape: tuple[int, int], findings: Findings) -> Iterator[Entry]:
    """The entries of one file, while their chains are checked."""
    slots, entries = shape
    memory = files.view(path)
    if len(memory) != HEADER_SIZE + slots * SLOT_SIZE + entries * INDEX_ENTRY_SIZE:
        findings.wrong(f"index {path.name}: has {len(memory)} bytes, which is no whole file")
        return
    count = max(HEADER.unpack_from(memory)[5], 1)
    start = HEADER_SIZE + slots * SLOT_SIZE + INDEX_ENTRY_SIZE
    newest = array("i", bytes(slots * SLOT_SIZE))
    raw = memory[start : start + (count - 1) * INDEX_ENTRY_SIZE]
    for number, (key_hash, offset, _, older) in enumerate(INDEX_ENTRY.iter_unpack(raw), 1):
        before = newest[key_hash % slots]
        if older != before:
            findings.wrong(f"index {path.name} entry {number}: the chain goes on at {older} instead of {before}")
        newest[key_hash % slots] = number
        findings.index_entries += 1
        yield Entry(key_hash, offset, path.name, number)
    _check_slots(memory, newest, path.name, findings)


def _check_slots(memory: memoryview, newest: "array[int]", name: str, findings: Findings) -> None:
    """Each slot must have the newest entry of its chain."""
    stored = array("i", memory[HEADER_SIZE : HEADER_SIZE + len(newest) * SLOT_SIZE].tobytes())
    if sys.byteorder == "little":
        stored.byteswap()
    if stored == newest:
        return
    for slot, (value, expected) in enumerate(zip(stored, newest, strict=True)):
        if value != expected:
            findings.wrong(f"index {name} slot {slot}: begins at {value} instead of {expected}")


def _check_keys(stored: StoredLog, first: int, found: Iterator[Entry], to_the_end: bool, findings: Findings) -> None:
    """The entries must be exactly the keys of the messages from the first indexed one on, in the log's order."""
    expected = (
        (value, unit.physical_offset)
        for unit in stored.walk()
        if isinstance(unit, Dispatched) and unit.physical_offset >= first
        for value in hashes_of(unit.queue.key_hash, unit.unique_hash, unit.keys)
    )
    for entry, key in zip_longest(found, expected):
        if entry is None:
            if to_the_end:
                findings.wrong(f"index: the message at {key[1]} and those behind it are not indexed")
            return
        if key is None or key != (entry.key_hash, entry.offset):
            instead = "no message" if key is None else f"log {key[1]}"
            findings.wrong(f"index {entry.file} entry {entry.number}: is for log {entry.offset}, next comes {instead}")
            return
