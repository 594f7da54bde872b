"""`python -m bench.pair`: a master with its slave, Apache's pair and ours in turn, by the same Java client.

- `async`: ASYNC_MASTER alone and with a slave: what the slave adds to the master's CPU a message, and what it takes.
- `sync`: SYNC_MASTER: messages/s and latency. Both pairs promise the same (the slave has received the message); rows of
  their own show our default, where the slave has flushed it.
- `catch-up`: a slave with an empty disk copies a large log, with and without senders at the master.

All brokers of `async` and `sync` run at once and are loaded in turn, in short rounds, so that neighbours share the
machine's mood; the medians of the rounds are compared at the end.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from bench.brokers import Apache, Ariane, UnderTest
from bench.load import Load, java_load
from bench.process import cpu_seconds
from tests.peers.build import Build, build
from tests.peers.jvm import until

Row = dict[str, Any]
TOPIC = "pair"


class Pair:
    """A master, and a slave that is started when it is wanted."""

    def __init__(self, jars: Build, kind: str, home: Path, role: str, more: str = "") -> None:
        self._jars = jars
        self._kind = kind
        self._home = home
        self._more = more
        self.master = self._start("master", f"brokerRole={role}\n")
        self.slave: UnderTest | None = None

    def _start(self, name: str, more: str) -> Apache | Ariane:
        more += self._more if self._kind == "ariane" else ""
        if self._kind == "apache":
            return Apache(self._jars, self._home / name, "ASYNC_FLUSH", more=more)
        return Ariane(self._home / name, "ASYNC_FLUSH", more=more)

    def start_slave(self) -> UnderTest:
        """Start the slave; it takes Apache's five seconds to join."""
        host, _, port = self.master.address.rpartition(":")
        self.slave = self._start("slave", f"brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress={host}:{int(port) + 1}\n")
        return self.slave

    def log_size(self, name: str) -> int:
        """Bytes that a broker's log holds, found in its files: the end of what is not zero in the last one."""
        files = sorted((self._home / name).glob("**/commitlog/0*"))
        while files:
            last = files.pop()
            with last.open("rb") as file:
                low, high = 0, last.stat().st_size // 65536
                while low < high:
                    middle = (low + high) // 2
                    file.seek(middle * 65536)
                    if any(file.read(65536)):
                        low = middle + 1
                    else:
                        high = middle
                if low:
                    return int(last.name) + low * 65536
        return 0

    def stop(self) -> None:
        """Stop both."""
        if self.slave is not None:
            self.slave.stop()
        self.master.stop()


@contextmanager
def pair(jars: Build, kind: str, folder: Path, role: str, more: str = "") -> Iterator[Pair]:
    """A pair in a folder of its own."""
    home = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=folder))
    made = Pair(jars, kind, home, role, more)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(home, ignore_errors=True)


def measured(load: Load, pair: Pair, case: str, **arguments: object) -> Row:
    """Run a case at the master; rate, latency and the CPU of both brokers a message."""
    pids = {"master": pair.master.pid} | ({"slave": pair.slave.pid} if pair.slave is not None else {})
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    result = load.run(case, namesrv=pair.master.namesrv, topic=TOPIC, **arguments)
    messages = max(1, int(result["messages"]))
    costs = {f"{name}_us": (cpu_seconds(pid) - before[name]) / messages * 1e6 for name, pid in pids.items()}
    return {
        "rate": messages / result["seconds"],
        **costs,
        **{k: result[k] for k in ("p50", "p99", "failed", "not_ok") if k in result},
    }


def run(folder: Path, options: argparse.Namespace) -> list[Row]:
    """All figures of both pairs."""
    jars, rows = build(), list[Row]()
    load = java_load(jars, folder / "java")

    def note(row: Row) -> None:
        rows.append(row)
        print("  ".join(f"{k} {v:,.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)

    try:
        if "async" in options.cases:
            in_turn(jars, folder, load, options, ASYNC, note)
        if "sync" in options.cases:
            in_turn(jars, folder, load, options, SYNC, note)
        if "catch-up" in options.cases:
            for kind in ("apache", "ariane"):
                catch_up(jars, kind, folder, load, options.log, options.millis, note)
    finally:
        load.stop()
    return rows


@dataclass(frozen=True)
class Contestant:
    """A pair under load: the name of its rows, who made it, and its configuration."""

    name: str
    kind: str
    role: str
    more: str = ""
    slave: bool = True


ASYNC = [
    Contestant("apache, slave", "apache", "ASYNC_MASTER"),
    Contestant("ariane alone", "ariane", "ASYNC_MASTER", slave=False),
    Contestant("ariane, slave", "ariane", "ASYNC_MASTER"),
]
SYNC = [
    Contestant("apache, received", "apache", "SYNC_MASTER"),
    Contestant("ariane, received", "ariane", "SYNC_MASTER", "haReport=received\n"),
    Contestant("ariane, flushed", "ariane", "SYNC_MASTER"),
]


def in_turn(
    jars: Build,
    folder: Path,
    load: Load,
    options: argparse.Namespace,
    contestants: list[Contestant],
    note: Callable[[Row], None],
) -> None:
    """Load each pair in turn, `options.rounds` times; then the medians, and their ratio to the first contestant's."""
    measured_rows: list[Row] = []
    with ExitStack() as stack:
        pairs = {c: stack.enter_context(pair(jars, c.kind, folder, c.role, c.more)) for c in contestants}
        for contestant, made in pairs.items():
            if contestant.slave:
                made.start_slave()
            # A JIT compiler needs its time; Python only has caches to fill.
            millis = options.warm if contestant.kind == "apache" else min(options.warm, 3000)
            load.run("sync", namesrv=made.master.namesrv, topic="warm", threads=16, size=128, millis=millis)
        for number, threads in product(range(options.rounds), (16, 64)):
            for contestant, made in pairs.items():
                row = measured(load, made, "sync", threads=threads, size=128, millis=options.millis)
                row = {"case": contestant.role, "pair": contestant.name, "threads": threads, "round": number, **row}
                measured_rows.append(row)
                note(row)
    for threads in (16, 64):
        base: Row = {}
        for contestant in contestants:
            own = [row for row in measured_rows if (row["pair"], row["threads"]) == (contestant.name, threads)]
            names = [name for name in ("rate", "p50", "p99", "master_us", "slave_us") if name in own[0]]
            middle = {name: median(row[name] for row in own) for name in names}
            base = base or middle
            ratios = {f"{name}_ratio": round(middle[name] / base[name], 2) for name in names if base.get(name)}
            note({"case": f"{contestant.role} median", "pair": contestant.name, "threads": threads, **middle, **ratios})


def catch_up(
    jars: Build, kind: str, folder: Path, load: Load, size: int, millis: int, note: Callable[[Row], None]
) -> None:
    """Fill a master's log, then start a slave with an empty disk; Apache's gets the last file only."""
    with pair(jars, kind, folder, "ASYNC_MASTER") as made:
        load.run("sync", namesrv=made.master.namesrv, topic=TOPIC, size=128, threads=4, millis=1000)  # makes the topic
        load.run("fill", namesrv=made.master.namesrv, topic=TOPIC, size=4096, count=size // 4300)
        quiet = measured(load, made, "sync", size=128, threads=4, millis=millis)
        end = made.log_size("master")
        began = time.monotonic()
        slave = made.start_slave()  # it copies before it says that it is ready
        busy = measured(load, made, "sync", size=128, threads=4, millis=millis)
        until(lambda: made.log_size("slave") >= end, 600, "the slave to catch up")
        seconds = time.monotonic() - began
        note({
            "pair": kind, "case": "catch-up", "bytes": end, "seconds_at_most": seconds,
            "slave_cpu_seconds": cpu_seconds(slave.pid), "p99_before": quiet.get("p99"),
            "p99_meanwhile": busy.get("p99"),
        })  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.pair", description=__doc__)
    parser.add_argument("cases", nargs="*", default=["async", "sync", "catch-up"], help="async, sync, catch-up (all)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of async and sync (default 3)")
    parser.add_argument("--millis", type=int, default=4000, help="length of a timed case (default 4000)")
    parser.add_argument("--warm", type=int, default=20000, help="milliseconds of warm-up")
    parser.add_argument("--log", type=int, default=2 << 30, help="bytes of the log to catch up with")
    parser.add_argument("--folder", help="where the stores lie meanwhile")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-pair-", dir=options.folder))
    try:
        rows = run(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "pair.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
