"""`python -m bench.growth`: what a message costs as topics, connections and the backlog grow, and what they take.

A broker process of ours is loaded by a raw client. Small and large are measured in turn on the same broker, so that a
figure is a ratio: 1.0 means that growth costs nothing.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.brokers import Ariane
from bench.frames import batch_frame, pull_frame, send_frame
from bench.process import cpu_seconds, mappings, memory, open_files
from bench.raw import RawConnection, connect, pump
from tests.peers.jvm import until

READ = 32
ROUNDS = 5
SLICE = 2400  # chunks of READ requests in one measurement
PULLS = 4000  # chunks of four pulls in one measurement
WRITTEN = 120  # seconds until the entries of all queues must be in files; the broker writes them each minute

Work = Callable[[], Awaitable[int]]
Row = dict[str, Any]


class Growth:
    """One broker, and the measurements on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.broker = Ariane(home, "ASYNC_FLUSH", namesrv=False)
        self.rows: list[Row] = []

    @property
    def pid(self) -> int:
        return self.broker.pid

    async def cost(self, work: Work) -> float:
        """Broker CPU microseconds a message."""
        before = cpu_seconds(self.pid)
        messages = await work()
        return (cpu_seconds(self.pid) - before) / messages * 1e6

    async def compare(self, what: str, small: Work, large: Work) -> None:
        """The ratio of two works, measured in turn."""
        await small()
        await large()
        pairs = [(await self.cost(small), await self.cost(large)) for _ in range(ROUNDS)]
        ratio = median(b / a for a, b in pairs)
        row = {"case": what, "small_us": median(a for a, _ in pairs), "large_us": median(b for _, b in pairs)}
        self.note({**row, "ratio": ratio, "target": 1.2})

    def note(self, row: Row) -> None:
        self.rows.append(row)
        print(
            "  " + "  ".join(f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()),
            flush=True,
        )


def _chunks(topics: int, requests: int) -> list[bytes]:
    """Sends that visit every queue of every topic in turn."""
    frames = (send_frame(n, f"topic-{n % topics}", n // topics % 4) for n in range(requests))
    return [b"".join(part) for part in _parts(frames, READ)]


def _parts(frames: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    for frame in frames:
        part.append(frame)
        if len(part) == size:
            yield part
            part = []


async def sending(connections: list[RawConnection], chunks: list[bytes], total: int = SLICE) -> int:
    """Send chunks of READ messages; returns how many messages that were."""
    failed = await pump(connections, chunks, READ, total)
    if failed:
        raise RuntimeError(f"{failed} messages were refused")
    return total * READ


async def measure_topics(growth: Growth, topics: int) -> None:
    """From 1 topic to many, of 4 queues each, and what they take."""
    [one] = [await connect(growth.broker.address)]
    few, many = (_chunks(count, topics * 4) for count in (1, topics))  # as many different keys in the index
    await sending([one], few, 50)
    before = memory(growth.pid).private
    await sending([one], many, len(many))
    used = memory(growth.pid).private - before
    growth.note({"case": f"memory of {topics:,} topics", "KiB a topic": used * 1024 / topics,
                 "KiB a queue": used * 1024 / topics / 4})  # fmt: skip
    queues = growth.home / "store" / "consumequeue"
    until(lambda: _files_in(queues) >= topics * 4, WRITTEN, "the entries of all queues to be in files")
    await growth.compare(f"1 to {topics:,} topics", lambda: sending([one], few), lambda: sending([one], many))
    growth.note({"case": f"{topics * 4:,} queues", "files": _files_in(queues), "descriptors": open_files(growth.pid),
                 "mappings": mappings(growth.pid), "MiB on the disk": _mebibytes_of(queues)})  # fmt: skip
    one.close()


def _files_in(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def _mebibytes_of(folder: Path) -> float:
    return sum(path.stat().st_blocks for path in folder.rglob("*")) * 512 / (1 << 20)


async def measure_connections(growth: Growth, count: int) -> None:
    """From one connection to many, the same load spread over them."""
    chunks = _chunks(1, 256)
    one = [await connect(growth.broker.address)]
    await sending(one, chunks, 50)
    before = memory(growth.pid).private
    many = [await connect(growth.broker.address) for _ in range(count)]
    await sending(many, chunks, count)
    used = memory(growth.pid).private - before
    growth.note({"case": f"memory of {count:,} connections", "KiB a connection": used * 1024 / count})
    await growth.compare(f"1 to {count:,} connections", lambda: sending(one, chunks), lambda: sending(many, chunks))
    for connection in [*one, *many]:
        connection.close()


async def measure_backlog(growth: Growth, gibibytes: float) -> None:
    """Sends and pulls at the end of a short log and of a long one, and pulls at its beginning."""
    one = [await connect(growth.broker.address)]
    sends = _chunks(1, 256)
    await sending(one, sends, 200)
    costs = [await growth.cost(lambda: sending(one, sends)) for _ in range(ROUNDS)]
    early = [await growth.cost(lambda: pulling(one, 0)) for _ in range(ROUNDS)]
    large = batch_frame("backlog", 0, bytes(4000), 64)
    await pump(one, [large], 1, int(gibibytes * (1 << 30)) // len(large))
    later = [await growth.cost(lambda: sending(one, sends)) for _ in range(ROUNDS)]
    old = [await growth.cost(lambda: pulling(one, 0)) for _ in range(ROUNDS)]
    for what, small, big in (("sends", costs, later), ("pulls of the oldest", early, old)):
        row = {"case": f"{what}, {gibibytes:g} GiB backlog", "small_us": min(small), "large_us": min(big)}
        growth.note({**row, "ratio": min(big) / min(small), "target": 1.2})
    one[0].close()


async def pulling(connections: list[RawConnection], start: int) -> int:
    """Pull by 32 from `start` on."""
    chunks = [b"".join(pull_frame("topic-0", 0, start + 32 * (4 * n + m)) for m in range(4)) for n in range(12)]
    await pump(connections, chunks, 4, PULLS)
    return PULLS * 4 * 32


async def measure_growth(
    folder: Path, topics: int = 10_000, connections: int = 1_000, gibibytes: float = 5, only: str = ""
) -> list[Row]:
    """All measurements, each on a broker of its own."""
    rows: list[Row] = []
    parts: dict[str, Callable[[Growth], Awaitable[None]]] = {
        "topics": lambda growth: measure_topics(growth, topics),
        "connections": lambda growth: measure_connections(growth, connections),
        "backlog": lambda growth: measure_backlog(growth, gibibytes),
    }
    for name, measure in parts.items():
        if only in name:
            print(f"growth: {name}", flush=True)
            growth = Growth(folder / name)
            try:
                await measure(growth)
            finally:
                growth.broker.stop()
                shutil.rmtree(folder / name, ignore_errors=True)
            rows += growth.rows
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--backlog-gib", type=float, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--results", default=str(Path(__file__).parent / "results"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-growth-"))
    try:
        sizes = (options.topics, options.connections, options.backlog_gib)
        rows = asyncio.run(measure_growth(folder, *sizes, only=options.only))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    Path(options.results).mkdir(parents=True, exist_ok=True)
    (Path(options.results) / "growth.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
