"""`python -m bench.instances`: one broker process, and two of `ariane broker --instances`, loaded by two clients.

The rate says little on a machine whose cores are busy with the clients; what each broker takes of a core, and the CPU
of a message, say what stops it. With `--raw` the clients send prepared frames, which costs them little: they saturate
one broker.
"""

import argparse
import json
import shutil
import socket
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.brokers import settings, start_ariane
from bench.frames import send_frame
from bench.load import Load, python_load
from bench.process import cpu_seconds, descendants
from tests.peers.jvm import free_port, listening, until

CLIENTS = 2
TOPIC = "instances"
READ = 32  # prepared frames that are sent at once
AHEAD = 8  # such chunks that may be unanswered on a connection
STORED = b'"code":0,"flag":1'


class Instances:
    """A name server, and so many brokers under one supervisor."""

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir(parents=True)
        names = free_port()
        self.namesrv = f"127.0.0.1:{names}"
        self._processes = [start_ariane(folder, "namesrv", ["--listen-port", str(names)])]
        until(lambda: listening(names), 60, "the name server")
        port = free_port(*[10 * number + near for number in range(count) for near in (-2, 0, 1)])
        (folder / "broker.conf").write_text(settings(port, self.namesrv, folder / "store", "ASYNC_FLUSH"))
        text = (folder / "broker.conf").read_text().replace(f"storePathCommitLog={folder}/store/commitlog\n", "")
        (folder / "broker.conf").write_text(text)
        words = ["-c", str(folder / "broker.conf"), *(["--instances", str(count)] if count > 1 else [])]
        self._processes.append(start_ariane(folder, "broker", words))
        for number in range(count):
            until(lambda number=number: listening(port + 10 * number), 60, f"broker {number}")  # type: ignore[misc]
        supervisor = self._processes[-1].pid
        self.addresses = [f"127.0.0.1:{port + 10 * number}" for number in range(count)]
        self.pids = [pid for pid in descendants(supervisor) if pid != supervisor] or [supervisor]

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)


class Prepared:
    """A connection that sends prepared frames. Counting answers in what arrives costs next to nothing."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._end = b""  # of what arrived: an answer may be split
        self.answered = 0

    def send(self, chunk: bytes) -> None:
        self._socket.sendall(chunk)

    def wait(self, answered: int) -> None:
        """Wait until so many sends were answered with success; a time-out when one was refused."""
        while self.answered < answered:
            data = self._end + self._socket.recv(1 << 18)
            self.answered += data.count(STORED)
            self._end = data[1 - len(STORED) :]

    def close(self) -> None:
        self._socket.close()


def send_prepared(addresses: list[str], seconds: float) -> int:
    """Send prepared frames to these brokers in turn; how many messages that were."""
    frames = [send_frame(number, TOPIC, number % 4) for number in range(8 * READ)]
    chunks = [b"".join(frames[at : at + READ]) for at in range(0, len(frames), READ)]
    connections = [Prepared(address) for address in addresses]
    sent, until_then = 0, time.monotonic() + seconds
    while time.monotonic() < until_then:
        for connection in connections:
            connection.send(chunks[sent % len(chunks)])
        sent += 1
        for connection in connections:
            connection.wait((sent - AHEAD) * READ)
    for connection in connections:
        connection.wait(sent * READ)
        connection.close()
    return sent * READ * len(connections)


def run_lines() -> None:
    """The process of a raw client: a case a line, as `Load` writes them."""
    for line in sys.stdin:
        given = dict(word.split("=", 1) for word in line.split()[1:])
        messages = send_prepared(given["addresses"].split(","), int(given["millis"]) / 1000)
        print(json.dumps({"messages": messages}), flush=True)


def measure(site: Instances, clients: list[Load], millis: int, *, raw: bool) -> tuple[float, float, list[float]]:
    """Messages a second, CPU microseconds a message, and what each broker took of a core."""
    arguments: dict[str, object] = {"namesrv": site.namesrv, "topic": TOPIC, "window": 500, "size": 128}
    if raw:
        arguments = {"addresses": ",".join(site.addresses)}
    arguments["millis"] = millis
    before, began = [cpu_seconds(pid) for pid in site.pids], time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as pool:
        results = list(pool.map(lambda client: client.run("async", **arguments), clients))
    seconds = time.perf_counter() - began
    used = [cpu_seconds(pid) - start for pid, start in zip(site.pids, before, strict=True)]
    messages = sum(result["messages"] for result in results)
    return messages / seconds, sum(used) / messages * 1e6, [one / seconds for one in used]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.instances", description=__doc__)
    parser.add_argument("--millis", type=int, default=4000, help="length of a round (default 4000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--raw", action="store_true", help="clients that send prepared frames")
    parser.add_argument("--lines", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.lines:
        run_lines()
        return
    folder = Path(tempfile.mkdtemp(prefix="ariane-instances-"))
    sites = {count: Instances(folder / str(count), count) for count in (1, 2)}
    if options.raw:
        clients = [Load([sys.executable, "-m", "bench.instances", "--lines"]) for _ in range(CLIENTS)]
    else:
        clients = [python_load(sys.executable, "ours", folder / f"client-{number}") for number in range(CLIENTS)]
    try:
        for number in range(options.rounds + 1):  # the first one warms up
            for count, site in sites.items():
                rate, us, shares = measure(site, clients, options.millis if number else 1000, raw=options.raw)
                if number:
                    shown = ", ".join(f"{share:.0%}" for share in shares)
                    print(
                        f"{count} instances: {rate:,.0f} messages/s, {us:.1f} µs a message, of a core: {shown}",
                        flush=True,
                    )
    finally:
        for client in clients:
            client.stop()
        for site in sites.values():
            site.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
