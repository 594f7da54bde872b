"""`python -m bench.crowd`: what 15,000 idle connections and 1,000 slow ones do to the latency of a normal client.

Slow ones send a byte of a frame a second, and connect again when they are cut. Each figure is that of one client that
sends a message of 128 bytes and pulls it back, one after the other: quiet, in the crowd, quiet again, some times over.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from random import Random

from ariane.env import SystemClock
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.frame import encode
from ariane.protocol.headers import PullMessageRequest, SendMessageRequestV2
from ariane.remoting.blocking import BlockingConnection
from tests.fuzz.live import broker_process
from tests.fuzz.runner import resident_bytes

PATIENCE = 60.0
BEGINNING = struct.pack(">iI", 1000, 900)  # of a frame that never ends


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.crowd", description=__doc__)
    parser.add_argument("--idle", type=int, default=15_000)
    parser.add_argument("--slow", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=5_000, help="of one figure (default 5,000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--crowd", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.crowd:
        asyncio.run(_crowd(options.crowd, options.idle, options.slow, options.rounds))
        return
    quiet: list[list[float]] = []
    crowded: list[list[float]] = []
    with broker_process() as (port, process, _log):
        client = _Client(port)
        client.measure(options.messages)  # warm
        before = resident_bytes(process)
        for _ in range(options.rounds):
            quiet.append(client.measure(options.messages))
            with _crowd_process(port, options.idle, options.slow, len(quiet)) as opened:
                held = resident_bytes(process) - before
                crowded.append(client.measure(options.messages))
            print(f"{opened} connections, {held / max(opened, 1) / 1024:.1f} KiB each in the broker", flush=True)
        quiet.append(client.measure(options.messages))
    rows = {"quiet": quiet, "in the crowd": crowded}
    print("| | p50, ms | p99, ms | p99.9, ms |\n|---|---|---|---|")
    for name, figures in rows.items():
        print(f"| {name} | " + " | ".join(f"{_median_of(figures, part):.2f}" for part in (0.5, 0.99, 0.999)) + " |")
    ratio = _median_of(crowded, 0.99) / _median_of(quiet, 0.99)
    print(f"\np99 in the crowd is {ratio:.2f} times the quiet one")
    print(json.dumps({"idle": options.idle, "slow": options.slow, "p99_ratio": round(ratio, 3)}))


def _median_of(figures: list[list[float]], part: float) -> float:
    return statistics.median(1000 * sorted(times)[int(len(times) * part)] for times in figures)


class _Client:
    def __init__(self, port: int) -> None:
        self._connection = BlockingConnection(f"127.0.0.1:{port}", SystemClock(), PATIENCE)
        self._offset = 0

    def measure(self, count: int) -> list[float]:
        """Seconds of each message from the send until it is pulled."""
        return [self._one() for _ in range(count)]

    def _one(self) -> float:
        send = SendMessageRequestV2(
            producer_group="p", topic="crowd", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0,
            sys_flag=0, born_timestamp=1_700_000_000_000, flag=0,
        ).fields()  # fmt: skip
        pull = PullMessageRequest(
            consumer_group="c", topic="crowd", queue_id=0, queue_offset=self._offset, max_msg_nums=1, sys_flag=4,
            commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
        ).fields()  # fmt: skip
        requests = encode(Command(RequestCode.SEND_MESSAGE_V2, send, bytes(128))), encode(Command(11, pull))
        self._offset += 1
        began = time.perf_counter()
        for request in requests:
            self._connection.send(request, PATIENCE)
            answer = self._connection.receive(PATIENCE).command
            assert answer.code == 0, answer
        return time.perf_counter() - began


@contextlib.contextmanager
def _crowd_process(port: int, idle: int, slow: int, number: int) -> Iterator[int]:
    options = {"--crowd": port, "--idle": idle, "--slow": slow, "--rounds": number}
    command = [sys.executable, "-m", "bench.crowd", *(str(part) for pair in options.items() for part in pair)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


async def _crowd(port: int, idle: int, slow: int, number: int) -> None:
    """Open the connections, tell how many there are, and keep them until killed.

    Each crowd has addresses of its own: the ports of those before are not free yet.
    """
    loop = asyncio.get_running_loop()

    async def connect(source: str) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        sock.bind((source, 0))
        await loop.sock_connect(sock, ("127.0.0.1", port))
        return sock

    async def drip(start: float) -> None:
        await asyncio.sleep(start)
        while True:
            with contextlib.suppress(OSError):
                sock = await connect(f"127.0.{number}.2")
                try:
                    for byte in BEGINNING + bytes(900):
                        await loop.sock_sendall(sock, bytes([byte]))
                        await asyncio.sleep(1)
                finally:
                    sock.close()

    kept = [await connect(f"127.0.{number}.{n % 4 + 3}") for n in range(idle)]
    random = Random(1)
    dripping = [asyncio.ensure_future(drip(random.random())) for _ in range(slow)]
    await asyncio.sleep(2)
    print(len(kept) + len(dripping), flush=True)
    await asyncio.gather(*dripping)


if __name__ == "__main__":
    main()
