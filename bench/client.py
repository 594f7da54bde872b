"""`python -m bench.client`: our Python client beside Apache's Java client and the C++ wrapper, against our broker.

Every round runs each client once, one after the other, so that neighbours see the same machine; medians count.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.brokers import Ariane
from bench.load import Load, java_load, python_load
from bench.process import cpu_seconds
from tests.interop.other_clients.cpp_client import cpp_driver
from tests.interop.other_clients.missing import PeerMissing
from tests.peers.build import PeersMissing, build

RESULTS = Path(__file__).parent / "results"
SYNC_1, SYNC_16 = "sync send, 1 thread", "sync send, 16 threads"
ASYNC, PUSH = "async send, 1,000 in flight", "push-consume"


@dataclass(frozen=True)
class Row:
    """A case, and how each client calls it."""

    name: str
    case: str
    python: dict[str, object]
    java: dict[str, object]
    cpp: bool


def rows(millis: int, backlog: int) -> list[Row]:
    timed: dict[str, object] = {"size": 128, "millis": millis}
    window: dict[str, object] = {"window": 1000}
    drain: dict[str, object] = {"count": backlog}
    return [
        Row(SYNC_1, "sync", timed | {"threads": 1}, timed | {"threads": 1}, True),
        Row(SYNC_16, "sync", timed | {"threads": 16}, timed | {"threads": 16}, True),
        Row(ASYNC, "async", timed | window, timed | window | {"threads": 1}, False),
        Row(f"{PUSH} {backlog:,}, batches of 32", "push", drain | {"batch": 32}, drain, False),
        Row(f"{PUSH} {backlog:,}, one by one", "push", drain | {"batch": 1}, {}, False),
    ]


@dataclass(frozen=True)
class Figure:
    """Messages a second, and the client's CPU in microseconds a message."""

    rate: float
    cpu: float


def measure(client: Load, row: Row, arguments: dict[str, object], namesrv: str) -> Figure:
    topic = "backlog" if row.case == "push" else "bench"
    before = cpu_seconds(client.pid)
    result = client.run(row.case, namesrv=namesrv, topic=topic, **arguments)
    used = cpu_seconds(client.pid) - before
    return Figure(result["messages"] / result["seconds"], used / max(1, result["messages"]) * 1e6)


@contextmanager
def clients(home: Path) -> Iterator[dict[str, Load]]:
    """The clients that can be had here."""
    found: dict[str, Load] = {"ariane": python_load(sys.executable, "ours", home / "ours")}
    try:
        found["C++ wrapper"] = python_load(cpp_driver()[0], "wrapper", home / "cpp")
    except PeerMissing as missing:
        print(f"without the C++ wrapper: {missing}")
    try:
        found["Java"] = java_load(build(), home / "java")
    except PeersMissing as missing:
        print(f"without Java: {missing}")
    try:
        yield found
    finally:
        for client in found.values():
            client.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millis", type=int, default=3000, help="length of a timed case")
    parser.add_argument("--backlog", type=int, default=300_000, help="messages to consume")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", default=str(RESULTS), help="where client.json goes")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-bench-"))
    broker = Ariane(folder / "broker", "ASYNC_FLUSH")
    try:
        with clients(folder) as found:
            table = run(found, broker.namesrv, arguments.millis, arguments.backlog, arguments.rounds)
        write(table, Path(arguments.results))
        report(table)
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run(found: dict[str, Load], namesrv: str, millis: int, backlog: int, rounds: int) -> "Table":
    fill(namesrv, backlog)
    table: Table = {}
    for number in range(rounds + 1):  # the first one warms up
        for row in rows(millis, backlog):
            for name, client in found.items():
                calls = {"ariane": row.python, "Java": row.java}.get(name, row.python if row.cpp else {})
                if calls:
                    figure = measure(client, row, calls, namesrv)
                    if number:
                        table.setdefault(row.name, {}).setdefault(name, []).append(figure)
    return table


def fill(namesrv: str, count: int) -> None:
    import ariane

    with ariane.Producer("fill", name_servers=namesrv, default_topic_queues=8) as producer:
        for at in range(0, count, 500):
            size = min(500, count - at)
            producer.send_batch([ariane.Message("backlog", b"x" * 128) for _ in range(size)], timeout=30)


Table = dict[str, dict[str, list[Figure]]]


def middle(figures: list[Figure]) -> Figure:
    """The medians of rate and CPU, each by itself."""
    return Figure(median(f.rate for f in figures), median(f.cpu for f in figures))


def ratio(found: dict[str, list[Figure]], other: str) -> float | None:
    """How many messages a CPU second of ours does for one of another client's."""
    if other not in found or "ariane" not in found:
        return None
    return middle(found[other]).cpu / middle(found["ariane"]).cpu


def targets(table: Table) -> list[tuple[str, float | None, float]]:
    """What was promised: a sentence, the figure, and what it must reach."""
    promised: list[tuple[str, float | None, float]] = []
    for row in (SYNC_1, SYNC_16):
        promised.append((f"{row}: times the C++ wrapper a CPU second", ratio(table[row], "C++ wrapper"), 2.0))
    for row, least in ((ASYNC, 20_000), (PUSH, 50_000)):
        found = next(figures for name, figures in table.items() if name.startswith(row))
        promised.append((f"{row}: messages a second", middle(found["ariane"]).rate, least))
    return promised


def write(table: Table, folder: Path) -> None:
    """All figures of all rounds, for whoever compares runs."""
    folder.mkdir(parents=True, exist_ok=True)
    rounds = {
        row: {name: [asdict(f) for f in figures] for name, figures in found.items()} for row, found in table.items()
    }
    met = [{"target": text, "figure": figure, "least": least} for text, figure, least in targets(table)]
    (folder / "client.json").write_text(json.dumps({"rounds": rounds, "targets": met}, indent=1))


def report(table: Table) -> None:
    print(f"\n{'':44}{'client':14}{'messages/s':>12}{'CPU µs':>10}{'per CPU second':>16}{'ours/its':>10}")
    for row, found in table.items():
        for number, (name, figures) in enumerate(found.items()):
            figure, times = middle(figures), ratio(found, name)
            line = f"{'' if number else row:44}{name:14}{figure.rate:12,.0f}{figure.cpu:10.1f}{1e6 / figure.cpu:16,.0f}"
            print(line + ("" if times is None else f"{times:10.2f}"))
    print()
    for text, reached, least in targets(table):
        verdict = "not measured" if reached is None else "met" if reached >= least else "MISSED"
        print(f"{text:60}{0.0 if reached is None else reached:12,.2f} of {least:,.0f}: {verdict}")


if __name__ == "__main__":
    main()
