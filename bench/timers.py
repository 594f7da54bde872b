"""`python -m bench.timers`: what a million messages cost that wait for their delivery time.

The broker's store and timers run in this process. Shown: CPU and memory per waiting message, the time to read all of
them again at a start, and the CPU to deliver them when an hour of them becomes due at once.
"""

import argparse
import asyncio
import json
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from ariane.broker import Broker, BrokerOptions
from ariane.broker.timers.timers import Timers
from ariane.broker.unit_copy import packed
from ariane.env import Env, ManualClock
from ariane.message import TIMER_DELAY_MS
from ariane.protocol.bodies import TopicConfig
from ariane.protocol.units import Unit
from ariane.version import describe

DAYS_MS = 10 * 24 * 3600 * 1000
DUE_MS = 3_600_000
BURST = 1000
OPTIONS = """
brokerName = bench
brokerIP1 = 127.0.0.1
listenPort = 0
bindAddress = 127.0.0.1
messageIndexEnable = false
rocketmq.broker.diskSpaceWarningLevelRatio = 0.99
"""


def resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def measure(folder: Path, count: int) -> dict[str, Any]:
    """Let `count` messages wait, a tenth of them for the next hour; read them again; deliver that tenth."""
    clock = ManualClock(time.time_ns() // 1_000_000)
    broker = Broker(BrokerOptions.load(f"{OPTIONS}storePathRootDir = {folder}"), Env(clock=clock))
    await broker.start()
    try:
        await broker.detours.timers.stop()  # driven by hand below
        broker.topics.update(TopicConfig("orders", 4, 4))
        timers = broker.detours.timers
        before, began = resident_mb(), time.process_time()
        for number in range(count):
            delay = number * 7919 % (DUE_MS if number % 10 == 0 else DAYS_MS) + 1000
            unit = Unit(b"orders", b"x" * 128, packed({TIMER_DELAY_MS: str(delay)}), queue_id=number % 4)
            unit.born_host = broker.writer.host
            timers.rewrite(unit)
            broker.writer.append(unit)
            if not number % BURST:
                broker.store.dispatch_now()
                timers.turn()
                await asyncio.sleep(0)
        broker.store.dispatch_now()
        settle(timers)
        insert = time.process_time() - began
        memory, pending = resident_mb() - before, timers.pending
        started = time.perf_counter()
        timers.load()
        settle(timers)
        restart = time.perf_counter() - started
        clock.advance(DUE_MS / 1000 + 1)
        began = time.process_time()
        delivered = timers.delivered
        settle(timers)
        fired = timers.delivered - delivered
        fire = time.process_time() - began
    finally:
        await broker.stop()
    return {
        "pending": pending,
        "insert_us": round(insert / count * 1e6, 2),
        "memory_mb": round(memory, 1),
        "restart_seconds": round(restart, 2),
        "fired": fired,
        "fire_us": round(fire / max(fired, 1) * 1e6, 2),
    }


def settle(timers: Timers) -> None:
    """Run turns until nothing is left to do for now."""
    while timers.turn() < 0.001:
        pass


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.timers", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-timers-"))
    try:
        found = asyncio.run(measure(folder / "store", options.count))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(found))
        return
    print(describe())
    for name, value in found.items():
        print(f"{name:16} {value:>12,}")


if __name__ == "__main__":
    main()
