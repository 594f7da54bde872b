"""`python -m bench.scrape`: what a scrape of a large broker costs: time, CPU, memory, and how long the loop stalls.

The broker runs in this process with 10,000 topics of 4 queues and 2,000 groups that consume 5 topics each, of which
every one lags. Another thread scrapes, so that reading the page costs the loop nothing. The stall is the longest time
between two turns of the event loop while a page is made.
"""

import argparse
import asyncio
import json
import shutil
import socket
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

from ariane.broker import Broker, BrokerOptions
from ariane.protocol.bodies import TopicConfig
from ariane.protocol.units import Unit
from ariane.version import describe

QUEUES = 4
TOPICS_OF_A_GROUP = 5
ROUNDS = 5

OPTIONS = """
brokerName = bench
brokerIP1 = 127.0.0.1
listenPort = 0
bindAddress = 127.0.0.1
mappedFileSizeCommitLog = 67108864
mappedFileSizeConsumeQueue = 2000
messageIndexEnable = false
metricsExporterType = PROM
metricsPromExporterPort = 0
rocketmq.broker.diskSpaceWarningLevelRatio = 0.99
"""


async def measure(folder: Path, topics: int, groups: int) -> dict[str, Any]:
    """Fill a broker and scrape it."""
    broker = Broker(BrokerOptions.load(f"{OPTIONS}storePathRootDir = {folder}"))
    await broker.start()
    try:
        await fill(broker, topics, groups)
        host, _, port = broker.monitor.endpoint.address.rpartition(":")
        scrapes = [await scrape(host, int(port)) for _ in range(ROUNDS)]
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        await scrape(host, int(port))
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
    finally:
        await broker.stop()
    best = min(scrapes, key=lambda found: found["seconds"])
    return {**best, "peak_mb": round(peak / 2**20, 1), "worst_seconds": max(found["seconds"] for found in scrapes)}


async def fill(broker: Broker, topics: int, groups: int) -> None:
    """A message in every topic; offsets of every group in some of them, one message behind."""
    for number in range(topics):
        name = f"topic-{number:05}"
        broker.topics.update(TopicConfig(name, QUEUES, QUEUES))
        unit = Unit(topic=name.encode(), body=b"x" * 100, queue_id=number % QUEUES, born_host=broker.writer.host)
        broker.writer.append(unit)
        broker.stats.put(name, number % QUEUES, 1, 200)
        if not number % 500:
            await asyncio.sleep(0)
    for number in range(groups):
        for turn in range(TOPICS_OF_A_GROUP):
            topic = f"topic-{(number * TOPICS_OF_A_GROUP + turn) % topics:05}"
            for queue_id in range(QUEUES):
                broker.offsets.commit(f"group-{number:04}", topic, queue_id, 0)
            broker.stats.got(f"group-{number:04}", topic, 0, 1, 200, 1)
        if not number % 100:
            await asyncio.sleep(0)
    broker.sampling.sample()


async def scrape(host: str, port: int) -> dict[str, Any]:
    """One scrape by another thread, beside a task that watches the loop."""
    found: dict[str, Any] = {}
    reading = threading.Thread(target=_read, args=(host, port, found))
    longest = 0.0
    cpu = time.thread_time()
    began = time.perf_counter()
    reading.start()
    last = time.perf_counter()
    while reading.is_alive():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    reading.join()
    seconds = time.perf_counter() - began
    cpu = time.thread_time() - cpu
    return {**found, "seconds": round(seconds, 3), "loop_cpu": round(cpu, 3), "stall_ms": round(longest * 1000, 1)}


def _read(host: str, port: int, found: dict[str, Any]) -> None:
    size = lines = 0
    with socket.create_connection((host, port)) as peer:
        peer.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        while data := peer.recv(1 << 20):
            size += len(data)
            lines += data.count(b"\n")
    found.update(megabytes=round(size / 2**20, 1), lines=lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scrape", description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=2_000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-scrape-"))
    try:
        figures = asyncio.run(measure(folder, options.topics, options.groups))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"ariane": describe(), "topics": options.topics, "groups": options.groups, **figures}, indent=1))


if __name__ == "__main__":
    main()
