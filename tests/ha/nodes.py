"""Masters and slaves over loopback, each with a store in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ariane.env import Env
from ariane.ha import Epochs, HaMaster, HaOptions, HaSlave
from ariane.store import MessageStore, StoreOptions
from ariane.testing.faults import MemoryFiles

FILE_SIZE = 1 << 16
ROOT = Path("/store")
PATIENCE = 60.0  # seconds, for a machine under load
OPTIONS = HaOptions(cluster="c", broker="b", heartbeat_interval=0.2, retry_interval=0.02, handshake_timeout=PATIENCE)


def new_store(files: MemoryFiles | None = None, file_size: int = FILE_SIZE) -> MessageStore:
    """A store in memory, opened; nothing runs in the background."""
    options = StoreOptions(
        root=ROOT, commitlog_file_size=file_size, consumequeue_file_entries=1000, index_slots=64, index_entries=256
    )
    store = MessageStore(options, Env(files=files or MemoryFiles()))
    store.open()
    return store


def epochs_of(store: MessageStore) -> Epochs:
    """The epochs of a store."""
    return Epochs(store.env.files, store.layout.root, store.env.random)


def log_bytes(store: MessageStore) -> bytes:
    """Everything that is in a store's log."""
    log, parts = store.log, []
    at = max(log.min_offset, 0)
    while (view := log.raw(at, FILE_SIZE)) is not None:
        parts.append(bytes(view))
        at += len(view)
    return b"".join(parts)


async def until(condition: Callable[[], bool], what: str = "") -> None:
    """Wait until something is true."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not true in time: {what or condition}"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running_master(
    store: MessageStore, options: HaOptions = OPTIONS, *, waits: bool = False, begin: bool = True
) -> AsyncIterator[HaMaster]:
    """A master that listens on a free port."""
    store.start(asyncio.get_running_loop())
    epochs = epochs_of(store)
    if begin:
        epochs.begin(store.log.stored)
    master = HaMaster(store, options, store.env.clock, epochs, waits=waits)
    await master.start("127.0.0.1", 0)
    try:
        yield master
    finally:
        await master.stop()
        await store.close()


@asynccontextmanager
async def running_slave(
    store: MessageStore, port: int, options: HaOptions = OPTIONS, **more: object
) -> AsyncIterator[HaSlave]:
    """A slave of the master on a port."""
    store.start(asyncio.get_running_loop())
    address = f"127.0.0.1:{port}"
    slave = HaSlave(store, replace(options), store.env.clock, address, epochs_of(store), **more)  # type: ignore[arg-type]
    slave.start()
    try:
        yield slave
    finally:
        await slave.stop()
        await store.close()
