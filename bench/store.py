"""The store alone: CPU per message for what it does all day, and how long it needs to come back after kill -9.

    python -m bench.store [--recovery-mib 1024]

CPU time does not depend on how busy the machine is, so the figures of a noisy machine are comparable.
"""

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ariane.env import Env
from ariane.protocol.batch import BatchItem, encode_batch
from ariane.protocol.ids import pack_host
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import Unit
from ariane.store import MessageStore, StoreOptions

TOPIC = "BenchTopic"
QUEUES = 4
FRAMES_A_READ = 16  # dispatch runs once for the messages of one read from a socket
HOST = pack_host("127.0.0.1", 10911)


def message(n: int, size: int) -> Unit:
    """A message with the properties that Apache's client gives it."""
    properties = encode_properties(
        {"UNIQ_KEY": f"7F00000100002A9F{n:016X}", "WAIT": "true", "TAGS": "TagA", "CLUSTER": "DefaultCluster"}
    )
    host = HOST
    return Unit(TOPIC.encode(), b"x" * size, properties.encode(), queue_id=n % QUEUES, born_host=host, store_host=host)


@contextmanager
def opened(root: Path) -> Iterator[MessageStore]:
    store = MessageStore(StoreOptions(root=root), Env())
    store.open()
    yield store
    asyncio.run(store.close())


def cpu_of(work: Callable[[], int]) -> float:
    """Microseconds of CPU for each of the things that `work` says it has done."""
    began = time.process_time()
    done = work()
    return (time.process_time() - began) / done * 1e6


def append(store: MessageStore, size: int, count: int) -> tuple[float, float]:
    """CPU of the appends, and of the dispatches, per message."""
    appending = dispatching = 0
    for start in range(0, count, FRAMES_A_READ):
        units = [message(n, size) for n in range(start, start + FRAMES_A_READ)]
        first = time.process_time_ns()
        for unit in units:
            store.append(unit)
        second = time.process_time_ns()
        store.dispatch_now()
        appending += second - first
        dispatching += time.process_time_ns() - second
    return appending / count / 1e3, dispatching / count / 1e3


def append_batches(store: MessageStore, size: int, count: int) -> float:
    batches = []
    for start in range(0, count, 32):
        units = [message(n, size) for n in range(start, start + 32)]
        batch = message(start, 0)
        batch.body = encode_batch([BatchItem(0, unit.body, unit.properties) for unit in units])
        batch.properties = b""
        batch.queue_id = start // 32 % QUEUES
        batches.append(batch)

    def work() -> int:
        for batch in batches:
            store.append_batch(batch)
            store.dispatch_now()
        return count

    return cpu_of(work)


def pull(store: MessageStore) -> float:
    """CPU of one pull of 32 messages."""

    def work() -> int:
        pulls = 0
        for queue in range(QUEUES):
            offset, end = 0, store.max_offset(TOPIC, queue)
            while offset < end:
                offset = store.get(TOPIC, queue, offset, 32).next_offset
                pulls += 1
        return pulls

    return cpu_of(work)


def query(store: MessageStore, count: int) -> float:
    """CPU of one query by unique key."""

    def work() -> int:
        for n in range(count):
            store.query(TOPIC, f"7F00000100002A9F{n:016X}", 32, 0, 1 << 60)
        return count

    return cpu_of(work)


def hot_path(folder: Path) -> None:
    for size, count in ((128, 100_000), (1024, 100_000)):
        with opened(folder / f"append{size}") as store:
            appending, dispatching = append(store, size, count)
            show(f"append, {size} B", appending)
            show(f"dispatch to queue and index, {size} B", dispatching)
            if size == 128:
                show("pull of 32 from memory", pull(store))
                store._queue_flusher.flush(thorough=True, keep=0)
                show("pull of 32 through the queue files", pull(store))
                show("query by key", query(store, 20_000))
        shutil.rmtree(folder / f"append{size}")
    with opened(folder / "batch") as store:
        show("append and dispatch in batches of 32, 128 B", append_batches(store, 128, 96_000))
    shutil.rmtree(folder / "batch")


WRITE_AND_DIE = """
import sys
from bench.store import fill_and_die
fill_and_die(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""


def fill_and_die(root: str, mib: int, size: int) -> None:
    """Fill a log and be killed, as a broker that has just flushed its queues once."""
    store = MessageStore(StoreOptions(root=Path(root)), Env())
    store.open()
    n = 0
    while store.log_max < mib << 20:
        for _ in range(1000):
            store.append(message(n, size))
            n += 1
        store.dispatch_now()
        store.tick()
        store.flusher.tick()
    print(n, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def recovery(folder: Path, mib: int) -> None:
    for size in (1024, 128):
        root = folder / f"killed{size}"
        command = [sys.executable, "-c", WRITE_AND_DIE, str(root), str(mib), str(size)]
        count = int(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
        store = MessageStore(StoreOptions(root=root), Env())
        began, cpu = time.monotonic(), time.process_time()
        report = store.open()
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
        assert sum(store.max_offset(TOPIC, queue) for queue in range(QUEUES)) == count
        print(f"recovery of {mib} MiB of {size} B messages after kill -9: {seconds:.1f} s ({cpu:.1f} s CPU), ", end="")
        print(f"{report.scanned:,} of {count:,} messages read, {cpu / report.scanned * 1e6:.2f} µs each")
        asyncio.run(store.close())
        rebuild(root, count)
        shutil.rmtree(root)


def rebuild(root: Path, count: int) -> None:
    """Make queues and index anew from the log."""
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    store = MessageStore(StoreOptions(root=root), Env())
    cpu = time.process_time()
    report = store.open()
    cpu = time.process_time() - cpu
    assert report.dispatched == count
    print(f"  rebuild of queues and index: {cpu / count * 1e6:.2f} µs a message, {count / cpu:,.0f} messages/s of CPU")
    asyncio.run(store.close())


def show(what: str, microseconds: float) -> None:
    print(f"{what:<45} {microseconds:8.2f} µs CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recovery-mib", type=int, default=1024, help="size of the log to recover; 0 to leave it out")
    arguments = parser.parse_args()
    import ariane.store.appender

    print("compiled" if ariane.store.appender.__file__.endswith(".so") else "not compiled")
    with tempfile.TemporaryDirectory() as folder:
        hot_path(Path(folder))
        if arguments.recovery_mib:
            recovery(Path(folder), arguments.recovery_mib)


if __name__ == "__main__":
    main()
