"""`python -m bench.pair`: a master with its slave, Apache's pair and ours in turn, by the same Java client.

- ASYNC_MASTER alone and with a slave: what the slave adds to the master's CPU a message, and what the slave takes.
- SYNC_MASTER: messages/s and latency. Both pairs promise the same (the slave has received the message); a row of its
  own shows our default, where the slave has flushed it.
- Catch-up: a slave with an empty disk copies a large log, with and without senders at the master.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
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


def run(folder: Path, millis: int, warm: int, log_bytes: int) -> list[Row]:
    """All figures of both pairs."""
    jars, rows = build(), list[Row]()
    load = java_load(jars, folder / "java")
    sync = {"size": 128, "millis": millis}

    def note(row: Row) -> None:
        rows.append(row)
        print("  ".join(f"{k} {v:,.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)

    def warmed(made: Pair) -> None:
        load.run("sync", namesrv=made.master.namesrv, topic="warm", threads=16, size=128, millis=warm)

    try:
        for kind in ("apache", "ariane"):
            with pair(jars, kind, folder, "ASYNC_MASTER") as made:
                warmed(made)
                note({"pair": kind, "case": "ASYNC_MASTER alone", **measured(load, made, "sync", threads=64, **sync)})
                made.start_slave()
                warmed(made)
                note({"pair": kind, "case": "ASYNC_MASTER, slave", **measured(load, made, "sync", threads=64, **sync)})
            reports = [("received", "haReport=received\n")] + ([("flushed", "")] if kind == "ariane" else [])
            for report, more in reports:
                with pair(jars, kind, folder, "SYNC_MASTER", more) as made:
                    made.start_slave()
                    warmed(made)
                    for threads in (16, 64):
                        row = measured(load, made, "sync", threads=threads, **sync)
                        note({"pair": kind, "case": f"SYNC_MASTER {threads} threads, {report}", **row})
            if log_bytes:
                catch_up(jars, kind, folder, load, log_bytes, millis, note)
    finally:
        load.stop()
    return rows


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
    parser.add_argument("--millis", type=int, default=6000, help="length of a timed case (default 6000)")
    parser.add_argument("--warm", type=int, default=20000, help="milliseconds of warm-up")
    parser.add_argument("--log", type=int, default=2 << 30, help="bytes of the log to catch up with; 0: leave that out")
    parser.add_argument("--folder", help="where the stores lie meanwhile")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-pair-", dir=options.folder))
    try:
        rows = run(folder, options.millis, options.warm, options.log)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "pair.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
