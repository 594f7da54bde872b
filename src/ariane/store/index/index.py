"""The index of message keys. Files are named by their creation time; only the newest is written."""

import logging
import time
from pathlib import Path

from ariane.env import Clock, Files
from ariane.protocol.native import i64
from ariane.store.index.index_file import IndexFile
from ariane.store.units.hashes import joined_hash, key_hash
from ariane.store.units.reading import Dispatched

log = logging.getLogger("ariane.store")


class Index:
    """All index files of a store."""

    def __init__(self, folder: Path, files: Files, clock: Clock, slots: int, entries: int) -> None:
        self.folder = folder
        self.slots = slots
        self.entries = entries
        self.files: list[IndexFile] = []
        self.finished: list[IndexFile] = []  # full, and not yet known to be durable
        self._files = files
        self._clock = clock

    def add(self, batch: list[Dispatched]) -> None:
        """Index the keys of messages; skips what the newest file already holds."""
        for message in batch:
            self.put(
                message.queue.key_hash, message.unique_hash, message.keys, message.physical_offset, message.store_time
            )
        self.write()

    def put(self, head: i64, unique: i64, keys: bytes | None, physical: i64, store_time: i64) -> None:
        """Index a message of the topic whose name and "#" have the hash `head`; `write` makes it part of the file.

        `unique` is the hash of its unique key, or -1.
        """
        file = self.files[-1] if self.files else None
        if file is not None and physical < file.end_offset:
            return
        if file is None or keys is not None or physical <= file.end_offset or file.count >= file.room:
            hashes = hashes_of(head, unique, keys)
            if hashes:
                self._put_with_care(hashes, physical, store_time)
        elif unique >= 0:
            file.put(unique, physical, store_time)

    def write(self) -> None:
        """Write what was put into the newest file since the last call."""
        if self.files:
            self.files[-1].write_header()

    def _put_with_care(self, hashes: list[int], physical: int, store_time: int) -> None:
        """Add all keys of a message, or none when the disk is full: reserves room for all before the first."""
        file = self.files[-1] if self.files else self._next_file(None)
        if physical <= file.end_offset and (file.count > 1 or file.end_offset > 0):
            return
        files = [file]
        missing = file.count + len(hashes) - file.entries
        file.make_room(len(hashes))
        while missing > 0:  # the keys of a message may even fill more than one new file
            files.append(self._next_file(files[-1]))
            files[-1].make_room(missing)
            missing -= files[-1].entries - files[-1].count
        following = iter(files[1:])
        for value in hashes:
            if file.full:
                file.write_header()
                file = next(following)
            file.put(value, physical, store_time)

    def _next_file(self, previous: IndexFile | None) -> IndexFile:
        self._files.make_folder(self.folder)
        made = self._clock.now_ms()
        while self._files.exists(self.folder / name_at(made)):
            made += 1
        file = IndexFile(self._files, self.folder / name_at(made), self.slots, self.entries)
        try:
            file.make_room(1)
            self._files.sync_folder(self.folder)
        except OSError:  # e.g. no room on the disk: this is tried again each second
            file.close()
            self._files.remove(file.path)
            raise
        if previous is not None:
            self.finished.append(previous)
            file.begin_offset = file.end_offset = previous.end_offset
            file.begin_time = file.end_time = previous.end_time
        self.files.append(file)
        return file

    def offsets(self, topic: str, key: str, most: int, begin: int, end: int) -> list[int]:
        """Commitlog offsets of messages with a key, newest first."""
        found: list[int] = []
        value = key_hash(f"{topic}#{key}")
        for file in reversed(self.files):
            if file.in_time(begin, end):
                found += file.select(value, most - len(found), begin, end)
            if file.begin_time < begin or len(found) >= most:
                break
        return found

    @property
    def end_offset(self) -> int:
        return self.files[-1].end_offset if self.files else 0

    @property
    def end_time(self) -> int:
        return self.files[-1].end_time if self.files else 0

    def expired(self, log_min: int) -> list[IndexFile]:
        """Remove and return the files whose messages are all gone from the log; the newest stays."""
        count = 0
        while count < len(self.files) - 1 and self.files[count].end_offset < log_min:
            count += 1
        gone, self.files = self.files[:count], self.files[count:]
        self.finished = [file for file in self.finished if file not in gone]
        return gone

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files = []


def hashes_of(head: int, unique: int, keys: bytes | None) -> list[int]:
    """The hashes of a message's unique key (-1: it has none) and of each word of its keys."""
    hashes = [unique] if unique >= 0 else []
    if keys is not None:
        hashes += [joined_hash(head, key) for key in keys.split(b" ") if key]
    return hashes


def name_at(ms: int) -> str:
    """The name of an index file made at this time, in local time to the millisecond."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(ms // 1000)) + f"{ms % 1000:03d}"
