"""`python -m bench.hotpath`: what a message costs a broker and a client, as a multiple of a fixed reference work.

The client is measured in its compiled form only. Two ways to count. Instructions, where valgrind is there: the
machine's other work does not show at all. CPU time elsewhere: short slices of the hot path and of the reference in
turn, the shortest of each kind.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypedDict

from ariane.version import is_compiled
from bench import clientpath
from bench.inprocess import HotPath, workloads
from bench.reference import reference

Costs = dict[str, float]


class Measured(TypedDict):
    """Costs a message in reference rounds, of which form and how counted."""

    form: str
    method: str
    costs: Costs


LIMITS = {"instructions": 1.25, "time": 2.0}  # times the baseline; neighbours slow a core down, but count nothing

_ROUNDS = 32  # of the reference in one slice
_COUNTED_READS = 32
_SHORT, _LONG = ", short", ", long"
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")
_VALGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]


BASELINE = Path(__file__).parent / "baseline.json"


def form() -> str:
    """Which form of the hot path runs here."""
    return "compiled" if is_compiled() else "plain"


async def time_costs(seconds: float) -> tuple[Costs, float]:
    """Cost of a message by workload in reference rounds, and the microseconds of one reference round."""
    with tempfile.TemporaryDirectory(prefix="ariane-hot-") as folder:
        path = HotPath(Path(folder))
        await path.fill()
        memory = bytearray(1 << 16)
        jobs: dict[str, tuple[Callable[[], object], int]] = {
            "reference": (partial(reference, _ROUNDS, memory), _ROUNDS),
        }
        for work in workloads():
            jobs[work.name] = (partial(path.run, work, len(work.chunks)), len(work.chunks) * work.messages)
        best = _shortest(jobs, seconds)
        await path.close()
    unit = best.pop("reference")
    if is_compiled():
        best |= await asyncio.to_thread(_client_times, seconds)
    return {name: found / unit for name, found in best.items()}, unit * 1e6


def _client_times(seconds: float) -> dict[str, float]:
    """CPU seconds of a message of each case of a client."""
    clientpath.warm_up()
    cases = clientpath.jobs()
    runs: dict[str, tuple[Callable[[], object], int]] = {name: (short, 1) for name, (short, _, _) in cases.items()}
    runs |= {name + _LONG: (long, 1) for name, (_, long, _) in cases.items()}
    best = _shortest(runs, seconds)
    return {name: (best[name + _LONG] - best[name]) / messages for name, (_, _, messages) in cases.items()}


def _shortest(jobs: dict[str, tuple[Callable[[], object], int]], seconds: float) -> dict[str, float]:
    """CPU seconds of one piece of each job: its shortest slice, all jobs in turn until the time is over."""
    best: dict[str, float] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, (job, pieces) in jobs.items():
            began = time.thread_time()
            job()
            spent = (time.thread_time() - began) / pieces
            best[name] = min(spent, best.get(name, spent))
    return best


def instruction_costs() -> Costs:
    """The same by counting instructions: one instrumented process forks a child for each workload and one for none."""
    with tempfile.TemporaryDirectory(prefix="ariane-count-") as folder:
        command = [*_VALGRIND, f"--log-file={folder}/log.%p", sys.executable, "-m", "bench.hotpath", "--children"]
        fixed = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, text=True, capture_output=True, check=True, env=fixed)
        children: dict[str, list[int]] = json.loads(done.stdout)
        counted = {name: (_counted(Path(folder) / f"log.{pid}"), pieces) for name, (pid, pieces) in children.items()}
    nothing, _ = counted.pop("nothing")
    short = {name: counted.pop(name + _SHORT)[0] for name in clientpath.CASES if name in counted}
    costs = {name: (count - short.get(name, nothing)) / pieces for name, (count, pieces) in counted.items()}
    unit = costs.pop("reference")
    return {name: cost / unit for name, cost in costs.items()}


def _counted(log: Path) -> int:
    found = _COUNTED.search(log.read_text())
    if found is None:
        raise RuntimeError(f"valgrind counted nothing: {log.read_text()[-500:]}")
    return int(found[1].replace(",", ""))


async def _fork_children() -> dict[str, tuple[int, int]]:
    """Runs under valgrind: the pid of the child of each workload, and how many pieces of it that child did."""
    with tempfile.TemporaryDirectory(prefix="ariane-hot-") as folder:
        path = HotPath(Path(folder))
        await path.fill()
        memory = bytearray(1 << 16)
        jobs: dict[str, tuple[Callable[[], object], int]] = {
            "nothing": (int, 1),
            "reference": (partial(reference, 8 * _ROUNDS, memory), 8 * _ROUNDS),
        }
        for work in workloads():
            jobs[work.name] = (partial(path.run, work, _COUNTED_READS), _COUNTED_READS * work.messages)
        for job, _ in jobs.values():  # a child's count goes on from its parent's, so all warming is done before
            job()
        return {name: (_child(job), pieces) for name, (job, pieces) in jobs.items()}


def _fork_clients() -> dict[str, tuple[int, int]]:
    """The same for clients: two children a case, of a short and a long run."""
    clientpath.warm_up()
    children: dict[str, tuple[int, int]] = {}
    for name, (short, long, messages) in clientpath.jobs().items():
        children[name + _SHORT] = (_child(short), 1)
        children[name] = (_child(long), messages)
    return children


def _child(job: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        job()
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def measure(seconds: float = 8) -> Measured:
    """Count the way that this machine can."""
    if shutil.which("valgrind"):
        return {"form": form(), "method": "instructions", "costs": instruction_costs()}
    return {"form": form(), "method": "time", "costs": asyncio.run(time_costs(seconds))[0]}


def regressions(measured: Measured) -> list[str]:
    """What has become dearer than the committed baseline by more than its limit, in words."""
    expected = json.loads(BASELINE.read_text())[measured["form"]][measured["method"]]
    return [
        f"{name}: {cost:.3f} reference rounds a message, {cost / expected[name]:.2f} times the baseline"
        for name, cost in measured["costs"].items()
        if cost > expected[name] * LIMITS[measured["method"]]
    ]


def _write_baseline(seconds: float) -> None:
    """Take what is measured now as the baseline of this form, by both methods."""
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    costs = {"time": asyncio.run(time_costs(seconds))[0], "instructions": instruction_costs()}
    baseline[form()] = {way: {name: round(cost, 3) for name, cost in found.items()} for way, found in costs.items()}
    BASELINE.write_text(json.dumps(baseline, indent=1) + "\n")


def _print_times(seconds: float) -> None:
    costs, unit = asyncio.run(time_costs(seconds))
    print(f"{form()} form; one reference round is {unit:.2f} µs")
    for name, cost in costs.items():
        print(f"  {name:26} {cost:6.3f} reference rounds a message, {cost * unit:6.2f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hotpath", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--json", action="store_true", help="measure as the guard does, print JSON")
    parser.add_argument("--baseline", action="store_true", help="write what is measured into baseline.json")
    parser.add_argument("--children", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.children:
        print(json.dumps(asyncio.run(_fork_children()) | (_fork_clients() if is_compiled() else {})))
    elif options.json:
        print(json.dumps(measure(options.seconds)))
    elif options.baseline:
        _write_baseline(options.seconds)
    else:
        _print_times(options.seconds)


if __name__ == "__main__":
    main()
