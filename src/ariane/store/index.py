"""The index: which messages have a key. Files are named by the time they were made; the newest is written."""

import logging
import time
from pathlib import Path
from types import FunctionType
from typing import Final

from ariane.env import Clock, Files
from ariane.protocol.java import rolled, string_hash
from ariane.protocol.native import i64
from ariane.protocol.units import TRANSACTION_ROLLBACK
from ariane.store.indexfile import IndexFile
from ariane.store.scan import Dispatched

log = logging.getLogger("ariane.store")

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000
_SHARED: Final = 20  # the ids that one client gives begin with the same characters: address, process, class loader
_POWER: Final = pow(31, _SHARED, 1 << 32)
_MAX_STARTS: Final = 10_000
_starts: dict[bytes, int] = {}


def key_hash(text: str) -> int:
    """The hash of `topic#key` as the index files have it: Java's, made positive."""
    return _positive(string_hash(text) & _MASK)


def _positive(value: int) -> int:
    """Java's Math.abs of an int given as its 32 bits; the one number that has no positive counts as 0."""
    if value < _SIGN:
        return value
    return 0 if value == _SIGN else (1 << 32) - value


def joined_hash(head: int, key: bytes) -> int:
    """The index hash of a text whose first part has the Java hash `head` and whose second part is `key`."""
    if not PLAIN:
        quick = _ascii_hash(head, key)
        if quick >= 0:
            return _positive(quick)
    if not key.isascii():
        text = key.decode(errors="replace")
        units = len(text.encode("utf-16-be", "surrogatepass")) // 2
        return _positive((head * pow(31, units, 1 << 32) + string_hash(text)) & _MASK)
    value = head
    if len(key) > _SHARED:
        start = key[:_SHARED]
        known = _starts.get(start)
        value = (head * _POWER + (_remember(start) if known is None else known)) & _MASK
        key = key[_SHARED:]
    return _positive(rolled(value, key))


def _ascii_hash(head: i64, key: bytes) -> i64:
    """Byte by byte, which costs least when it is compiled; -1 when not all bytes are ASCII."""
    value = head
    size: i64 = len(key)
    at: i64 = 0
    while at < size:
        byte: i64 = key[at]
        if byte > 127:
            return -1
        value = value * 31 + byte & _MASK
        at += 1
    return value


PLAIN: Final = isinstance(_ascii_hash, FunctionType)
"""Whether this module is not compiled."""


def _remember(start: bytes) -> int:
    if len(_starts) >= _MAX_STARTS:
        _starts.clear()
    value = _starts[start] = string_hash(start.decode("ascii"))
    return value


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
        """Index the keys of messages; what the newest file has already is left out."""
        file = self.files[-1] if self.files else None
        for message in batch:
            physical = message.physical_offset
            if file is not None and physical < file.end_offset:
                continue
            hashes = hashes_of(message)
            if not hashes:
                continue
            if file is None or physical <= file.end_offset or file.count + len(hashes) > file.room:
                file = self._put_with_care(hashes, physical, message.store_time)
                continue
            for value in hashes:
                file.put(value, physical, message.store_time)
        if file is not None:
            file.write_header()

    def _put_with_care(self, hashes: list[int], physical: int, store_time: int) -> IndexFile:
        """All keys of a message or, when the disk is full, none: room for the last is made before the first is put."""
        file = self.files[-1] if self.files else self._next_file(None)
        if physical <= file.end_offset and (file.count > 1 or file.end_offset > 0):
            return file
        spare = file if file.count + len(hashes) <= file.entries else self._next_file(file)
        file.make_room(len(hashes))
        for value in hashes:
            if file.full:
                file.write_header()
                file = spare
            file.put(value, physical, store_time)
        return spare

    def _next_file(self, previous: IndexFile | None) -> IndexFile:
        if previous is not None:
            self.finished.append(previous)
        self._files.make_folder(self.folder)
        made = self._clock.now_ms()
        while self._files.exists(self.folder / name_at(made)):
            made += 1
        file = IndexFile(self._files, self.folder / name_at(made), self.slots, self.entries)
        if previous is not None:
            file.begin_offset = file.end_offset = previous.end_offset
            file.begin_time = file.end_time = previous.end_time
        file.make_room(1)
        self._files.sync_folder(self.folder)
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
        """Take out the files that point only to what the log has no longer; the newest stays."""
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


def hashes_of(message: Dispatched) -> list[int]:
    """The hashes under which a message is found: its unique key and each word of its keys."""
    hashes: list[int] = []
    if message.sys_flag & TRANSACTION_ROLLBACK == TRANSACTION_ROLLBACK:
        return hashes
    head = message.queue.key_hash
    if message.unique_key is not None:
        hashes.append(joined_hash(head, message.unique_key))
    if message.keys is not None:
        for key in message.keys.split(b" "):
            if key:
                hashes.append(joined_hash(head, key))
    return hashes


def name_at(ms: int) -> str:
    """The name of an index file made at this time, in local time to the millisecond."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(ms // 1000)) + f"{ms % 1000:03d}"
