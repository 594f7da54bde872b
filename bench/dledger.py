"""`python -m bench.dledger`: a DLedger group of three, Apache's and ours in turn, by the same Java client.

Sync sends of 128 B by 16 and 64 threads: messages/s, latency, and the CPU a message of the leader and of a follower.
Apache's group acknowledges when a majority has a message in memory; ours when a majority has it on disk. A third group,
ours with `dLegerDurableAck=false`, promises what Apache's does.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.brokers import start_ariane
from bench.load import Load, java_load
from bench.process import cpu_seconds
from tests.peers.build import Build, build
from tests.peers.jvm import SMALL, Server, free_port, java, listening, until, write_logback
from tests.peers.servers import PLAIN, ApacheNamesrv

Row = dict[str, Any]
HEAP = ["-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=1g"]
IDS = ("n0", "n1", "n2")
GROUPS = {"apache": "", "ariane": "", "ariane, ack in memory": "dLegerDurableAck=false\n"}


class Group:
    """Three brokers with a name server of the same kind, each a process."""

    def __init__(self, jars: Build, kind: str, home: Path, more: str) -> None:
        peers = ";".join(f"{id}-127.0.0.1:{free_port()}" for id in IDS)
        self.pids: dict[str, int] = {}
        self._stops = []
        if kind == "apache":
            names = ApacheNamesrv(jars, home / "namesrv")
            self.namesrv, self._stops = names.address, [names.kill]
        else:
            port = free_port()
            self._stops = [start_ariane(home, "namesrv", ["--listen-port", str(port)]).kill]
            until(lambda: listening(port), 30, "our name server")
            self.namesrv = f"127.0.0.1:{port}"
        for id in IDS:
            folder = home / id
            folder.mkdir()
            conf = folder / "broker.conf"
            conf.write_text(settings(self.namesrv, folder / "store", peers, id) + more)
            if kind == "apache":
                write_logback(folder, "broker")
                main = ["ariane.peers.Server", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf)]
                command = [word for word in java(jars, folder, HEAP, PLAIN, main) if word not in SMALL]
                server = Server("broker", folder, command)
                self.pids[id] = server.pid
                self._stops.append(server.kill)
            else:
                process = start_ariane(folder, "broker", ["-c", str(conf)])
                self.pids[id] = process.pid
                self._stops.append(process.kill)

    def stop(self) -> None:
        for stop in reversed(self._stops):
            stop()


def settings(namesrv: str, store: Path, peers: str, id: str) -> str:
    """One configuration file that both kinds of brokers read."""
    values = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "bench",
        "brokerIP1": "127.0.0.1",
        "listenPort": free_port(-2, 1),
        "namesrvAddr": namesrv,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "defaultTopicQueueNums": 8,
        "diskMaxUsedSpaceRatio": 95,
        "waitTimeMillsInSendQueue": 20000,
        "osPageCacheBusyTimeOutMills": 20000,
        "enableDLegerCommitLog": "true",
        "dLegerGroup": "bench",
        "dLegerPeers": peers,
        "dLegerSelfId": id,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def warm(load: Load, group: Group, millis: int) -> None:
    """Wait for a leader and let compilers do their work."""
    deadline = time.monotonic() + 120
    while True:
        try:
            result = load.run("sync", namesrv=group.namesrv, topic="warm", threads=4, size=128, millis=500)
            if result["messages"] > result.get("failed", 0):
                break
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
        time.sleep(1)
    load.run("sync", namesrv=group.namesrv, topic="warm", threads=16, size=128, millis=millis)


def measured(load: Load, group: Group, threads: int, millis: int) -> Row:
    """Rate, latency and CPU a message; the leader is the member that used most."""
    before = {id: cpu_seconds(pid) for id, pid in group.pids.items()}
    result = load.run("sync", namesrv=group.namesrv, topic="bench", threads=threads, size=128, millis=millis)
    messages = max(1, int(result["messages"]))
    costs = sorted(((cpu_seconds(pid) - before[id]) / messages * 1e6 for id, pid in group.pids.items()), reverse=True)
    return {
        "threads": threads,
        "rate": messages / result["seconds"],
        "p50": result["p50"],
        "p99": result["p99"],
        "leader_us": costs[0],
        "follower_us": (costs[1] + costs[2]) / 2,
        "failed": result.get("failed", 0),
    }


def run(folder: Path, kinds: list[str], millis: int, warm_millis: int) -> list[Row]:
    """All figures of the groups in turn."""
    jars, rows = build(), list[Row]()
    load = java_load(jars, folder / "java")
    try:
        for kind in kinds:
            home = Path(tempfile.mkdtemp(prefix="group-", dir=folder))
            group = Group(jars, kind.split(",")[0], home, GROUPS[kind])
            try:
                warm(load, group, warm_millis)
                for threads in (16, 64):
                    rows.append({"group": kind, **measured(load, group, threads, millis)})
                    print(
                        "  ".join(f"{k} {v:,.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()),
                        flush=True,
                    )
            finally:
                group.stop()
                shutil.rmtree(home, ignore_errors=True)
    finally:
        load.stop()
    return rows


def show(row: Row) -> None:
    """Print one line of figures."""
    print("  ".join(f"{k} {v:,.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)


def show_ratios(rows: list[Row]) -> None:
    """Each group of ours against Apache's of the same run."""
    for row in rows:
        for base in rows:
            if base["group"] == "apache" and row["group"] != "apache" and row["threads"] == base["threads"]:
                ratios = {name: row[name] / base[name] for name in ("rate", "p99", "leader_us", "follower_us")}
                print(
                    row["group"], row["threads"], "  ".join(f"{name} x {value:.2f}" for name, value in ratios.items())
                )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.dledger", description=__doc__)
    parser.add_argument("--millis", type=int, default=8000, help="length of a timed case (default 8000)")
    parser.add_argument("--warm", type=int, default=20000, help="milliseconds of warm-up")
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), help="which groups (default: all)")
    parser.add_argument("--folder", help="where the stores lie meanwhile")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-dledger-", dir=options.folder))
    try:
        rows = run(folder, options.groups, options.millis, options.warm)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show_ratios(rows)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "dledger.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
