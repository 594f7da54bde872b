"""A process that writes to a store until it is killed, and tells through a pipe what was acknowledged.

acknowledged = write_until(root, "SYNC_FLUSH", count, stop=Process.kill)
"""

import asyncio
import multiprocessing
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

from ariane.env import Env, MappedFile, PlainFile, SystemFiles
from ariane.store import MessageStore, PutStatus, StoreOptions
from tests.store.units import unit, units_of

WRITERS = 4
TOPIC = "orders"
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.store.writing"])


class LyingFiles(SystemFiles):
    """A disk whose syncs do nothing: what a test must notice."""

    def map(self, path: Path, size: int, *, allocate: bool) -> MappedFile:
        return cast(MappedFile, Unsynced(super().map(path, size, allocate=allocate)))

    def open(self, path: Path, size: int = 0) -> PlainFile:
        return cast(PlainFile, Unsynced(super().open(path, size)))

    def sync_folder(self, path: Path) -> None:
        pass

    def sync_all(self, path: Path) -> None:
        pass


class Unsynced:
    """A file in all but its sync."""

    def __init__(self, file: MappedFile | PlainFile) -> None:
        self._file = file

    def sync(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def options(root: Path, flush: str) -> StoreOptions:
    """Small files, so that a short run goes through many of them, and frequent checkpoints."""
    return StoreOptions(
        root=root,
        commitlog_file_size=64 << 10,
        consumequeue_file_entries=100,
        index_slots=1000,
        index_entries=500,
        flush="SYNC_FLUSH" if flush == "SYNC_FLUSH" else "ASYNC_FLUSH",
        flush_interval=timedelta(milliseconds=20),
        flush_consumequeue_interval=timedelta(milliseconds=20),
        flush_consumequeue_thorough_interval=timedelta(milliseconds=60),
        disk_warning_percent=100,
    )


def _child(root: Path, flush: str, lying: bool, first: int, acknowledged: Connection) -> None:
    asyncio.run(_write(root, flush, lying, first, acknowledged))


async def _write(root: Path, flush: str, lying: bool, first: int, acknowledged: Connection) -> None:
    store = MessageStore(options(root, flush), Env(files=LyingFiles() if lying else SystemFiles()))
    store.open()
    store.start(asyncio.get_running_loop())
    await asyncio.gather(*(_writer(store, number, flush, first, acknowledged) for number in range(WRITERS)))


async def _writer(store: MessageStore, number: int, flush: str, first: int, acknowledged: Connection) -> None:
    n = first
    while True:
        key = f"{number}-{n}"
        result = store.append(unit(TOPIC, key.encode(), queue_id=number, KEYS=key, UNIQ_KEY="U" + key))
        assert result.status is PutStatus.OK, store.health.text
        if flush == "SYNC_FLUSH":
            done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            store.when_flushed(result.end_offset, done.set_result)
            assert await done
        else:
            await asyncio.sleep(0)
        acknowledged.send_bytes(key.encode())
        n += 1


def write_until(
    root: Path,
    flush: str,
    count: int,
    first: int,
    stop: Callable[[BaseProcess], None],
    *,
    lying: bool = False,
    with_rest: bool = True,
) -> list[bytes]:
    """Have a process write to the store, stop it after `count` acknowledgements, and give all it has acknowledged.

    Without `with_rest`, only what it said before the stop: after a power cut nobody would have heard the rest.
    """
    ours, theirs = _context.Pipe(duplex=False)
    process = _context.Process(target=_child, args=(root, flush, lying, first, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        acknowledged = [ours.recv_bytes() for _ in range(count)]
        while ours.poll():
            acknowledged.append(ours.recv_bytes())
        stop(process)
    finally:
        process.kill()
        process.join()
    rest = _rest(ours)
    return acknowledged + rest if with_rest else acknowledged


def _rest(pipe: Connection) -> list[bytes]:
    found: list[bytes] = []
    with pipe:
        while True:
            try:
                found.append(pipe.recv_bytes())
            except (EOFError, OSError):
                return found


class Book:
    """What was acknowledged so far, and what a store must therefore serve."""

    def __init__(self) -> None:
        self.acknowledged: set[bytes] = set()
        self.lost: set[bytes] = set()
        self._next = [0] * WRITERS

    def check(self, root: Path, flush: str, acknowledged: list[bytes]) -> None:
        """Open the store, read what is new in it, and note what was acknowledged but is not there."""
        self.acknowledged.update(acknowledged)
        asyncio.run(self._check(root, flush, acknowledged))

    async def _check(self, root: Path, flush: str, acknowledged: list[bytes]) -> None:
        store = MessageStore(options(root, flush), Env())
        store.open()
        served: set[bytes] = set()
        for queue in range(WRITERS):
            served.update(self._read(store, queue))
        self.lost.update(set(acknowledged) - served)
        for key in list(served)[:20]:
            assert len(store.query(TOPIC, key.decode(), 32, 0, 1 << 60).slices) == 1, key
        await store.close()

    def _read(self, store: MessageStore, queue: int) -> list[bytes]:
        """The bodies of a queue behind those read before; they must rise."""
        bodies: list[bytes] = []
        while self._next[queue] < store.max_offset(TOPIC, queue):
            result = store.get(TOPIC, queue, self._next[queue], 32)
            units = units_of(result.slices)
            assert [u.queue_offset for u in units] == list(range(self._next[queue], result.next_offset))
            bodies += [u.body for u in units]
            self._next[queue] = result.next_offset
        numbers = [int(body.split(b"-")[1]) for body in bodies]
        assert numbers == sorted(set(numbers))
        return bodies
