"""`python -m bench`: Apache's broker and ours in turn, the same Java client, one table of ratios.

Kafka stands beside them, and behind them what a message costs as topics, connections and the backlog grow.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import tempfile
from pathlib import Path

from ariane.version import describe
from bench.cases import cases
from bench.growth import measure_growth
from bench.kafka import measure_kafka
from bench.report import growth_table, table, write_plot
from bench.rounds import Plan, Row, run_rounds
from tests.peers.build import build

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    options = _arguments()
    chosen = [case for case in cases(options.millis, options.backlog) if options.only in case.name]
    brokers = options.brokers.split(",")
    plan = Plan(chosen, brokers, options.rounds, options.warm, options.backlog)
    folder = Path(tempfile.mkdtemp(prefix="ariane-bench-", dir=options.folder))
    try:
        rows = run_rounds(build(), folder, plan) if {"apache", "ariane"} & set(brokers) else []
        if "kafka" in brokers:
            rows += measure_kafka(folder / "kafka", options.rounds, options.backlog)
        growth = asyncio.run(measure_growth(folder / "growth")) if "growth" in brokers else []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _write(rows, growth, plan, Path(options.results))


def _write(rows: list[Row], growth: list[Row], plan: Plan, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = {"ariane": describe(), "python": platform.python_version(), "cores": os.cpu_count(), "rounds": plan.rounds}
    (folder / "broker.json").write_text(json.dumps({"about": about, "rows": rows, "growth": growth}, indent=1))
    text = table(rows, plan.cases) + growth_table(growth)
    (folder / "broker.md").write_text(text)
    write_plot(rows, plan.cases, folder / "broker.svg")
    print(f"\n{text}\nwritten: broker.json, broker.md and broker.svg in {folder}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--brokers", default="apache,ariane,kafka,growth", help="what to measure (default all)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each broker is measured (default 3)")
    parser.add_argument("--millis", type=int, default=6000, help="length of a timed case (default 6000)")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="messages to drain (default 1,000,000)")
    parser.add_argument("--warm", type=int, default=20000, help="milliseconds of warm-up for each broker's JIT")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--folder", help="where the stores lie meanwhile (default: the system's temporary folder)")
    parser.add_argument("--results", default=str(RESULTS), help="where the results go")
    return parser.parse_args()


if __name__ == "__main__":
    main()
