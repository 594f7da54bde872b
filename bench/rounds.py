"""The rounds: each broker in turn runs every case, so that neighbours share the machine's mood."""

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.brokers import Apache, Ariane, UnderTest
from bench.cases import Case
from bench.load import Load, java_load, python_load
from bench.process import cpu_seconds, machine, memory
from tests.peers.build import Build

Row = dict[str, Any]
Start = Callable[[Path], UnderTest]


@dataclass(frozen=True)
class Plan:
    """What one run measures."""

    cases: list[Case]
    brokers: list[str]
    rounds: int
    warm_millis: int
    backlog: int


def run_rounds(jars: Build, folder: Path, plan: Plan) -> list[Row]:
    """All rounds of all brokers; the load processes stay the same, so that they are equally warm for all of them."""
    loads = {"java": java_load(jars, folder / "java"), "python": python_load(sys.executable, "ours", folder / "python")}
    rows: list[Row] = []
    try:
        for flush in sorted({case.flush for case in plan.cases}):
            picked = [case for case in plan.cases if case.flush == flush]
            for number in range(plan.rounds):
                for name, start in _starters(jars, flush, plan.brokers).items():
                    print(f"round {number + 1}: {name}, {flush}", flush=True)
                    rows += _round(start, folder / f"{flush}-{name}-{number}", number, loads, picked, plan)
    finally:
        for load in loads.values():
            load.stop()
    return rows


def _starters(jars: Build, flush: str, brokers: list[str]) -> Mapping[str, Start]:
    known: dict[str, Start] = {
        "apache": lambda home: Apache(jars, home, flush),
        "ariane": lambda home: Ariane(home, flush),
    }
    return {name: start for name, start in known.items() if name in brokers}


def _round(
    start: Start, home: Path, number: int, loads: Mapping[str, Load], picked: list[Case], plan: Plan
) -> list[Row]:
    broker, load = start(home), loads["java"]
    try:
        # A JIT compiler needs its time; Python only has caches to fill.
        warm = plan.warm_millis if broker.name == "apache" else min(plan.warm_millis, 3000)
        load.run("sync", namesrv=broker.namesrv, topic="warm", threads=16, size=128, millis=warm)
        if any(case.backlog for case in picked):
            load.run("fill", namesrv=broker.namesrv, topic="backlog", size=128, count=plan.backlog)
        return [
            *(_measure(broker, number, loads[case.client], case) for case in picked),
            _process_row(broker, number, picked),
        ]
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)


def _process_row(broker: UnderTest, number: int, picked: list[Case]) -> Row:
    used = memory(broker.pid)
    return {
        "broker": broker.name, "round": number, "case": "process", "flush": picked[0].flush,
        "ready": broker.seconds_to_ready, "resident": used.resident, "private": used.private,
    }  # fmt: skip


def _measure(broker: UnderTest, number: int, load: Load, case: Case) -> Row:
    topic = "backlog" if case.backlog else "bench-" + case.kind
    before, cpu, client, began = machine(), cpu_seconds(broker.pid), cpu_seconds(load.pid), time.monotonic()
    result = load.run(case.kind, namesrv=broker.namesrv, topic=topic, **case.arguments)
    spent, client_spent = cpu_seconds(broker.pid) - cpu, cpu_seconds(load.pid) - client
    after, elapsed = machine(), time.monotonic() - began
    messages = max(1, int(result["messages"]))
    row: Row = {"broker": broker.name, "round": number, "case": case.name, **result}
    row["rate"] = messages / result["seconds"]
    row["cpu_us"] = spent / messages * 1e6
    row["client_us"] = client_spent / messages * 1e6
    row["stolen"] = (after.stolen - before.stolen) / elapsed
    row["others"] = (after.busy - before.busy - spent - client_spent) / elapsed
    print_row(row)
    return row


def print_row(row: Row) -> None:
    """One line as soon as a case is measured."""
    told = f"{row['rate']:>11,.0f} messages/s {row['cpu_us']:>8.2f} µs CPU a message"
    notes = "".join(f"  {name} {row[name]:,.5g}" for name in ("failed", "lost", "p50", "p99", "p999") if row.get(name))
    print(f"  {row['case']:32} {told}   (others {row['others']:.2f} cores){notes}", flush=True)
