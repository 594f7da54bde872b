"""`python -m bench.client`: our Python client beside Apache's Java client and the C++ wrapper, against our broker.

Every round runs each client once, one after the other, so that neighbours see the same machine; medians count.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.brokers import Ariane
from bench.load import Load, java_load, python_load
from bench.process import cpu_seconds, memory
from tests.interop.other_clients.cpp_client import cpp_driver
from tests.interop.other_clients.missing import PeerMissing
from tests.peers.build import PeersMissing, build

RESULTS = Path(__file__).parent / "results"
OURS, JAVA, CPP = "ariane", "Java", "C++ wrapper"
FRESH_RATIO = 0.3  # of a JVM's start and memory
KEEPS_UP = 0.8  # least share of what is sent that a consumer on the producer's loop receives meanwhile


@dataclass(frozen=True)
class Row:
    """A case, how each client calls it, and the targets: our CPU a message and our rate as ratios to Java's."""

    name: str
    case: str
    python: dict[str, object]
    java: dict[str, object]
    cpu: float
    rate: float
    cpp: bool = False


def rows(millis: int, backlog: int) -> list[Row]:
    timed: dict[str, object] = {"size": 128, "millis": millis}
    window: dict[str, object] = {"window": 1000}
    java_window = timed | window | {"threads": 1}
    drain: dict[str, object] = {"count": backlog}
    push = f"push-consume {backlog:,}"
    return [
        Row("async send, 1,000 in flight", "async", timed | window, java_window, 1.0, 1.0),
        Row("automatic batching / Java's single sends", "async", timed | window | {"batching": 1}, java_window, 0.3, 3),
        Row("sync send, 16 threads", "sync", timed | {"threads": 16}, timed | {"threads": 16}, 1.2, 0.8, True),
        Row("sync send, 1 thread", "sync", timed | {"threads": 1}, timed | {"threads": 1}, 0.8, 1.0, True),
        Row(f"{push}, lists of 32", "push", drain | {"batch": 32}, drain | {"batch": 32}, 1.0, 0.8),
        Row(f"{push}, one by one, coroutine", "push", drain | {"batch": 1}, drain | {"batch": 1}, 2.0, 0.4),
        Row(f"{push}, one by one, function", "push", drain | {"batch": 1, "function": 1}, drain | {"batch": 1}, 2, 0.4),
    ]


@dataclass(frozen=True)
class Figure:
    """Messages a second, and the client's CPU in microseconds a message."""

    rate: float
    cpu: float


@dataclass(frozen=True)
class Start:
    """A fresh process: seconds from its start to its first stored message, and MiB when it idles then."""

    seconds: float
    resident: float
    private: float


Table = dict[str, dict[str, list[Figure]]]
Starts = dict[str, list[Start]]


def measure(client: Load, row: Row, arguments: dict[str, object], namesrv: str) -> Figure:
    topic = "backlog" if row.case == "push" else "bench"
    before = cpu_seconds(client.pid)
    result = client.run(row.case, namesrv=namesrv, topic=topic, **arguments)
    used = cpu_seconds(client.pid) - before
    return Figure(result["messages"] / result["seconds"], used / max(1, result["messages"]) * 1e6)


Starter = Callable[[Path], Load]


def starters(*, cpp: bool) -> dict[str, Starter]:
    """How to start each client that can be had here."""
    found: dict[str, Starter] = {OURS: lambda home: python_load(sys.executable, "ours", home)}
    if cpp:
        try:
            wrapper = cpp_driver()[0]
            found[CPP] = lambda home: python_load(wrapper, "wrapper", home)
        except PeerMissing as missing:
            print(f"without the C++ wrapper: {missing}")
    try:
        built = build()
        found[JAVA] = lambda home: java_load(built, home)
    except PeersMissing as missing:
        print(f"without Java: {missing}")
    return found


@contextmanager
def clients(home: Path, found: dict[str, Starter]) -> Iterator[dict[str, Load]]:
    started = {name: start(home / name) for name, start in found.items()}
    try:
        yield started
    finally:
        for client in started.values():
            client.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millis", type=int, default=2500, help="length of a timed case")
    parser.add_argument("--backlog", type=int, default=300_000, help="messages to consume")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--cpp", action="store_true", help="measure the C++ wrapper too")
    parser.add_argument("--results", default=str(RESULTS), help="where client.json goes")
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="ariane-bench-"))
    broker = Ariane(folder / "broker", "ASYNC_FLUSH")
    found = starters(cpp=arguments.cpp)
    wanted = [row for row in rows(arguments.millis, arguments.backlog) if arguments.only in row.name]
    try:
        if any(row.case == "push" for row in wanted):
            fill(broker.namesrv, arguments.backlog)
        with clients(folder, found) as running:
            table = run(running, wanted, broker.namesrv, arguments.rounds)
            keeping_up = shared(running[OURS], broker.namesrv, arguments.millis, arguments.rounds)
        starts = {} if arguments.only else start_up(found, folder / "starts", broker.namesrv, arguments.rounds)
        write(table, keeping_up, starts, Path(arguments.results))
        print(f"\nLoad average {before:.1f} before, {os.getloadavg()[0]:.1f} at the end; {arguments.rounds} rounds.\n")
        print(report(wanted, table, keeping_up, starts))
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run(running: dict[str, Load], wanted: list[Row], namesrv: str, rounds: int) -> Table:
    table: Table = {}
    for number in range(rounds + 1):  # the first one warms up
        for row in wanted:
            for name, client in running.items():
                calls = {OURS: row.python, JAVA: row.java}.get(name, row.python if row.cpp else {})
                if calls:
                    figure = measure(client, row, calls, namesrv)
                    if number:
                        table.setdefault(row.name, {}).setdefault(name, []).append(figure)
    return table


def shared(ours: Load, namesrv: str, millis: int, rounds: int) -> list[float]:
    """Of what a producer sends, the share that a consumer on the same loop receives meanwhile; once each round."""
    shares = []
    for number in range(rounds):
        result = ours.run("shared", namesrv=namesrv, topic=f"shared{number}", window=1000, size=128, millis=millis)
        shares.append(result["received"] / max(1, result["messages"]))
    return shares


def start_up(found: dict[str, Starter], home: Path, namesrv: str, rounds: int) -> Starts:
    """Start each client afresh, in turn; a JVM's classes are compiled before its clock starts."""
    starts: Starts = {}
    for number in range(rounds):
        for name, start in found.items():
            if name == CPP:
                continue
            client = start(home / f"{name}{number}")
            try:
                client.run("idle", namesrv=namesrv, topic="bench", size=128)
                took = time.perf_counter() - client.started
                held = memory(client.pid)
            finally:
                client.stop()
            starts.setdefault(name, []).append(Start(took, held.resident, held.private))
    return starts


def fill(namesrv: str, count: int) -> None:
    import ariane

    with ariane.Producer("fill", name_servers=namesrv, default_topic_queues=8) as producer:
        for at in range(0, count, 500):
            size = min(500, count - at)
            producer.send_batch([ariane.Message("backlog", b"x" * 128) for _ in range(size)], timeout=30)


FRESH: list[tuple[str, str, Callable[[Start], float]]] = [
    ("a fresh process until its first message is stored", "s", lambda start: start.seconds),
    ("memory of a client that idles then", "MiB", lambda start: start.resident),
    ("of it private", "MiB", lambda start: start.private),
]


def _judged(ratio: float, sign: str, target: float) -> str:
    good = ratio <= target if sign == "≤" else ratio >= target
    return f"{ratio:.2f} ({sign} {target:g}{'' if good else ' **no**'})"


def middle(figures: list[Figure]) -> Figure:
    """The medians of rate and CPU, each by itself."""
    return Figure(median(f.rate for f in figures), median(f.cpu for f in figures))


def write(table: Table, keeping_up: list[float], starts: Starts, folder: Path) -> None:
    """All figures of all rounds, to compare runs."""
    folder.mkdir(parents=True, exist_ok=True)
    rounds = {
        row: {name: [asdict(f) for f in figures] for name, figures in found.items()} for row, found in table.items()
    }
    fresh = {name: [asdict(start) for start in found] for name, found in starts.items()}
    kept = {"rounds": rounds, "shared loop": keeping_up, "start": fresh}
    (folder / "client.json").write_text(json.dumps(kept, indent=1))


def report(wanted: list[Row], table: Table, keeping_up: list[float], starts: Starts) -> str:
    """Two Markdown tables, as docs/performance.md has them."""
    lines = ["| case | Ariane µs, msg/s | Java µs, msg/s | CPU ratio (target) | rate ratio (target) |"]
    lines += ["|---|---|---|---|---|"]
    wrapper = []
    for row in wanted:
        found = {name: middle(figures) for name, figures in table[row.name].items()}
        ours, java = found[OURS], found.get(JAVA)
        cells = [row.name, f"{ours.cpu:.1f}, {ours.rate:,.0f}"]
        if java is not None:
            cells.append(f"{java.cpu:.1f}, {java.rate:,.0f}")
            cells.append(_judged(ours.cpu / java.cpu, "≤", row.cpu))
            cells.append(_judged(ours.rate / java.rate, "≥", row.rate))
        lines.append(f"| {' | '.join(cells)} |")
        if CPP in found:
            times = found[CPP].cpu / ours.cpu
            wrapper.append(
                f"C++ wrapper, {row.name}: {found[CPP].cpu:.1f} µs, {found[CPP].rate:,.0f}/s; {times:.2f} of ours"
            )
    lines += ["", "| beside | Ariane | Java | ratio (target) |", "|---|---|---|---|"]
    share = _judged(median(keeping_up), "≥", KEEPS_UP)
    lines.append(f"| received of what a busy producer on the same loop sent meanwhile | | | {share} |")
    for what, unit, figure in FRESH:
        medians = {name: median(figure(start) for start in fresh) for name, fresh in starts.items()}
        cells = [f"{medians[name]:.1f} {unit}" if name in medians else "" for name in (OURS, JAVA)]
        ratio = _judged(medians[OURS] / medians[JAVA], "≤", FRESH_RATIO) if len(medians) == 2 else ""
        if medians:
            lines.append(f"| {what} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines + wrapper)


if __name__ == "__main__":
    main()
