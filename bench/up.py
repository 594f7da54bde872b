"""`python -m bench.up`: how long `ariane up` takes until it has taken a message, and what it holds when idle.

Apache's name server and broker stand beside it, in the same run, with the heap of Apache's own start script.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ariane import Message, aio
from ariane.errors import ArianeError
from bench.brokers import Apache
from bench.process import Memory, memory
from tests.peers.build import build
from tests.peers.jvm import free_port

PATIENCE = 60.0


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ariane-bench-"))
    try:
        rows = [("ariane up", *_ours(folder)), ("Apache namesrv + broker", *_apache(folder))]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| cluster | seconds until the first message is stored | resident when idle, MiB | of it not page cache |")
    print("|---|---|---|---|")
    for name, seconds, used in rows:
        print(f"| {name} | {seconds:.2f} | {used.resident:,.0f} | {used.private:,.0f} |")


def _ours(folder: Path) -> tuple[float, Memory]:
    names, port = free_port(), free_port(-2, 1)
    ports = ["--namesrv-port", str(names), "--broker-port", str(port), "--no-first-message"]
    command = [str(Path(sys.executable).parent / "ariane"), "up", "--store", str(folder / "ours"), *ports]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        asyncio.run(_first_message(f"127.0.0.1:{names}"))
        return time.monotonic() - began, memory(process.pid)
    finally:
        process.terminate()
        process.wait()


def _apache(folder: Path) -> tuple[float, Memory]:
    began = time.monotonic()
    cluster = Apache(build(), folder / "apache", "ASYNC_FLUSH")
    try:
        asyncio.run(_first_message(cluster.namesrv))
        return time.monotonic() - began, memory(cluster.pid)
    finally:
        cluster.stop()


async def _first_message(name_servers: str, now: Callable[[], float] = time.monotonic) -> None:
    """Try to send until it works."""
    deadline = now() + PATIENCE
    while True:
        try:
            async with aio.Producer("bench", name_servers=name_servers) as producer:
                await producer.send(Message("bench", b"first"))
                return
        except ArianeError:
            if now() > deadline:
                raise
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    main()
