"""`python -m bench`: Apache's broker and ours in turn, the same Java client, one table of ratios."""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.brokers import Apache, Ariane, UnderTest
from bench.cases import Case, cases
from bench.load import Load
from bench.process import cpu_seconds, memory, stolen_seconds
from bench.report import print_table, write_plot
from tests.peers.build import Build, build

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


def main() -> None:
    options = _arguments()
    chosen = [case for case in cases(options.millis, options.backlog) if options.only in case.name]
    folder = Path(tempfile.mkdtemp(prefix="ariane-bench-"))
    try:
        rows = _run(build(), folder, chosen, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "broker.json").write_text(json.dumps(rows, indent=1))
    print_table(rows, chosen)
    write_plot(rows, chosen, RESULTS / "broker.svg")
    print(f"\nwritten: {RESULTS / 'broker.json'} and {RESULTS / 'broker.svg'}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each broker is measured (default 3)")
    parser.add_argument("--millis", type=int, default=6000, help="length of a timed case (default 6000)")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="messages to drain (default 1,000,000)")
    parser.add_argument("--warm", type=int, default=20000, help="milliseconds of warm-up for each broker's JIT")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    return parser.parse_args()


def _run(jars: Build, folder: Path, chosen: list[Case], options: argparse.Namespace) -> list[Row]:
    load = Load(jars, folder / "load")
    rows: list[Row] = []
    try:
        for flush in sorted({case.flush for case in chosen}):
            starters = _starters(jars, folder / flush, flush)
            picked = [case for case in chosen if case.flush == flush]
            for number in range(options.rounds):
                for name, start in starters.items():
                    rows += _round(name, number, start, load, picked, options)
    finally:
        load.stop()
    return rows


def _starters(jars: Build, folder: Path, flush: str) -> dict[str, Callable[[int], UnderTest]]:
    return {
        "apache": lambda n: Apache(jars, folder / f"apache-{n}", flush),
        "ariane": lambda n: Ariane(folder / f"ariane-{n}", flush),
    }


def _round(
    name: str,
    number: int,
    start: Callable[[int], UnderTest],
    load: Load,
    picked: list[Case],
    options: argparse.Namespace,
) -> list[Row]:
    print(f"round {number + 1}: {name}, {picked[0].flush}", flush=True)
    broker = start(number)
    try:
        warm = options.warm if name == "apache" else min(options.warm, 2000)
        load.run("sync", namesrv=broker.namesrv, topic="warm", threads=16, size=128, millis=warm)
        if any(case.backlog for case in picked):
            load.run("fill", namesrv=broker.namesrv, topic="backlog", size=128, count=options.backlog)
        rows = [_measure(broker, number, load, case) for case in picked]
        used = memory(broker.pid)
        rows.append({
            "broker": name, "round": number, "case": "process", "flush": picked[0].flush,
            "ready": broker.seconds_to_ready, "resident": used.resident, "private": used.private,
        })  # fmt: skip
        return rows
    finally:
        broker.stop()


def _measure(broker: UnderTest, number: int, load: Load, case: Case) -> Row:
    topic = "backlog" if case.backlog else "bench-" + case.kind
    cpu, stolen, began = cpu_seconds(broker.pid), stolen_seconds(), time.monotonic()
    result = load.run(case.kind, namesrv=broker.namesrv, topic=topic, **case.arguments)
    spent = cpu_seconds(broker.pid) - cpu
    messages = max(1, int(result["messages"]))
    row: Row = {"broker": broker.name, "round": number, "case": case.name, **result}
    row["rate"] = messages / result["seconds"]
    row["cpu_us"] = spent / messages * 1e6
    row["stolen"] = (stolen_seconds() - stolen) / (time.monotonic() - began)
    print(f"  {case.name:32} {row['rate']:>10,.0f} messages/s {row['cpu_us']:>8.2f} µs CPU a message", flush=True)
    return row


if __name__ == "__main__":
    main()
