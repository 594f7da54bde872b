"""Opens index files and repairs them after a crash.

The index is derived from the log: damaged parts are dropped and rebuilt from it.
"""

import logging
from pathlib import Path

from ariane.env import Files, PlainFile
from ariane.store.index.index import Index
from ariane.store.index.index_file import (
    HEADER,
    HEADER_SIZE,
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    SLOT,
    SLOT_SIZE,
    IndexFile,
)

log = logging.getLogger("ariane.store")

_NAME_DIGITS = 17


def index_names(files: Files, folder: Path) -> list[str]:
    """The index files, oldest first."""
    return [name for name in files.list(folder) if len(name) == _NAME_DIGITS and name.isascii() and name.isdigit()]


def index_shape(files: Files, folder: Path, slots: int, entries: int, notes: list[str] | None) -> tuple[int, int]:
    """Slots and entries of the existing files, found from their length and their first and last entry.

    A difference to the configuration is noted and logged; without `notes` there is no configuration to differ from.
    """
    for name in index_names(files, folder):
        size = files.size(folder / name)
        file = files.open(folder / name)
        try:
            found = _shape_of(file, size, slots, entries)
        finally:
            file.close()
        if found is not None and found != (slots, entries) and notes is not None:
            note = f"the store has index files of {found[0]} slots and {found[1]} entries, the configuration says "
            note += f"{slots} and {entries}: the store's are used"
            notes.append(note)
            log.warning(note)
        if found is not None:
            return found
    return slots, entries


def _shape_of(file: PlainFile, size: int, slots: int, entries: int) -> tuple[int, int] | None:
    if size < HEADER_SIZE:
        return None
    fits = HEADER_SIZE + slots * SLOT_SIZE + entries * INDEX_ENTRY_SIZE == size
    _, _, begin_offset, end_offset, _, count = HEADER.unpack(file.pread(0, HEADER_SIZE))
    if count <= 1:
        return (slots, entries) if fits else None
    ends = (1, begin_offset), (count - 1, end_offset)
    if fits and all(_has_entry(file, slots, number, offset) for number, offset in ends):
        return slots, entries
    return _search_shape(file, size, count, ends)


def _has_entry(file: PlainFile, slots: int, number: int, log_offset: int) -> bool:
    """Whether entry `number` after this many slots has this log offset, and its slot is in use."""
    raw = file.pread(HEADER_SIZE + slots * SLOT_SIZE + number * INDEX_ENTRY_SIZE, INDEX_ENTRY_SIZE)
    if len(raw) < INDEX_ENTRY_SIZE:
        return False
    key_hash, offset, _, older = INDEX_ENTRY.unpack(raw)
    slot = SLOT.unpack(file.pread(HEADER_SIZE + key_hash % slots * SLOT_SIZE, SLOT_SIZE))[0]
    return bool(offset == log_offset and key_hash > 0 and 0 <= older < number <= slot)


def _search_shape(file: PlainFile, size: int, count: int, ends: tuple[tuple[int, int], ...]) -> tuple[int, int] | None:
    """Try each number of slots that leaves a whole number of entries, and enough of them."""
    most = (size - HEADER_SIZE - count * INDEX_ENTRY_SIZE) // SLOT_SIZE
    first = (size - HEADER_SIZE) // SLOT_SIZE % (INDEX_ENTRY_SIZE // SLOT_SIZE) or INDEX_ENTRY_SIZE // SLOT_SIZE
    for slots in range(first, most + 1, INDEX_ENTRY_SIZE // SLOT_SIZE):
        if all(_has_entry(file, slots, number, offset) for number, offset in ends):
            return slots, (size - HEADER_SIZE - slots * SLOT_SIZE) // INDEX_ENTRY_SIZE
    return None


def load_index(files: Files, index: Index, notes: list[str]) -> None:
    """Open all files of the right length; a file of another length is not a readable index."""
    expected = HEADER_SIZE + index.slots * SLOT_SIZE + index.entries * INDEX_ENTRY_SIZE
    for name in index_names(files, index.folder):
        path = index.folder / name
        if files.size(path) == expected:
            index.files.append(IndexFile(files, path, index.slots, index.entries))
        else:
            notes.append(f"the index file {name} has {files.size(path)} bytes instead of {expected} and is rebuilt")
            drop_index(files, index)
            return


def drop_index(files: Files, index: Index) -> None:
    """Remove all index files."""
    for file in index.files:
        file.file.close()
    index.files = []
    for name in index_names(files, index.folder):
        files.remove(index.folder / name)


def repair_index(files: Files, index: Index, durable_time: int) -> int:
    """Cut every file newer than the checkpoint after its last consistent entry.

    Returns the log offset from which messages must be indexed again; -1 to continue at the end of the index.
    """
    if not index.files:
        return 0
    for number, file in enumerate(index.files):
        newest = number == len(index.files) - 1 or not file.full  # a new file is started only when the last one is full
        if file.end_time <= durable_time and not newest:
            continue
        keep = _trusted(file)
        if newest or keep < file.count:
            _drop_behind(files, index, number + 1)
            return _cut_last_message(files, index, keep)
    return -1


def _trusted(file: IndexFile) -> int:
    """The number of the first entry that cannot be right: offsets only rise, and a chain leads to older entries."""
    raw = file.file.read(file.entries_at + INDEX_ENTRY_SIZE, (file.count - 1) * INDEX_ENTRY_SIZE)
    before = 0
    for number, (key_hash, offset, seconds, older) in enumerate(INDEX_ENTRY.iter_unpack(raw), 1):
        if key_hash < 0 or offset < before or seconds < 0 or not 0 <= older < number:
            return number
        before = offset
    return file.count


def _cut_last_message(files: Files, index: Index, keep: int) -> int:
    """Drop the last message's entries too: it may have more keys than entries. It is indexed again."""
    file = index.files[-1]
    resume = file.entry(keep - 1)[1] if keep > 1 else max(file.begin_offset, 0)
    while keep > 1 and file.entry(keep - 1)[1] == resume:
        keep -= 1
    if keep == 1 and len(index.files) > 1:  # the first keys of the message may be in the previous file
        _drop_behind(files, index, len(index.files) - 1)
        return _cut_last_message(files, index, index.files[-1].count)
    file.cut(keep)
    return resume


def cut_index(files: Files, index: Index, log_end: int) -> None:
    """Drop the entries of messages at `log_end` or later."""
    while index.files and index.files[-1].end_offset >= log_end:
        file = index.files[-1]
        file.write_header()  # entries that wait in memory
        low, high = 1, file.count
        while low < high:
            middle = (low + high) // 2
            if file.entry(middle)[1] >= log_end:
                high = middle
            else:
                low = middle + 1
        file.cut(low)
        index.finished = [full for full in index.finished if full is not file]
        if low > 1:
            return
        _drop_behind(files, index, len(index.files) - 1)


def _drop_behind(files: Files, index: Index, count: int) -> None:
    for file in index.files[count:]:
        file.file.close()
        files.remove(file.path)
    index.finished = [file for file in index.finished if file not in index.files[count:]]
    del index.files[count:]
