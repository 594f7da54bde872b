"""`python -m bench.signed`: what access control adds to a send of 128 B, in our broker and in Apache's.

One client process sends the same frames, signed and unsigned, over 16 connections with one request under way on each;
the figures are the CPU time of the broker's process a message.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.brokers import Apache, Ariane
from bench.frames import send_frame
from bench.process import cpu_seconds
from bench.raw import connect, pump
from tests.peers.build import build

KEYS = ("bench-key", "bench-secret")
RULES = f"accounts:\n- {{accessKey: {KEYS[0]}, secretKey: {KEYS[1]}, topicPerms: [signed=PUB|SUB]}}\n"
TOPIC = "signed"
CONNECTIONS = 16
PREPARED = 4096  # frames


@contextmanager
def broker(name: str, guarded: bool) -> Iterator[tuple[str, int]]:
    """A running broker: its address and process."""
    with tempfile.TemporaryDirectory(prefix="ariane-signed-") as folder:
        home = Path(folder)
        rules = home / ("broker/conf/plain_acl.yml" if name == "apache" else "rules/conf/plain_acl.yml")
        rules.parent.mkdir(parents=True)
        rules.write_text(RULES)
        more = "aclEnable=true\n" if guarded else ""
        started: Apache | Ariane
        if name == "apache":
            started = Apache(build(), home, "ASYNC_FLUSH", more=more)
        else:
            started = Ariane(home / "ariane", "ASYNC_FLUSH", more=f"{more}rocketmqHome={home / 'rules'}\n")
        try:
            yield started.address, started.pid
        finally:
            started.stop()


async def cost(address: str, pid: int, guarded: bool, seconds: float) -> float:
    """Microseconds of the broker a message, after it is warm."""
    keys = KEYS if guarded else None
    frames = [send_frame(number, TOPIC, number % 4, keys=keys) for number in range(PREPARED)]
    connections = [await connect(address) for _ in range(CONNECTIONS)]
    loop = asyncio.get_running_loop()
    try:
        until = loop.time() + seconds
        while loop.time() < until:
            await pump(connections, frames, 1, PREPARED)
        best = float("inf")
        until = loop.time() + seconds
        while loop.time() < until:
            before = cpu_seconds(pid)
            failed = await pump(connections, frames, 1, PREPARED)
            if failed:
                raise RuntimeError(f"{failed} of {PREPARED} sends failed")
            best = min(best, (cpu_seconds(pid) - before) / PREPARED * 1e6)
        return best
    finally:
        for connection in connections:
            connection.close()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of warming, and again of measuring, each")
    parser.add_argument("--only", choices=("ariane", "apache"))
    given = parser.parse_args()
    for name in [given.only] if given.only else ["ariane", "apache"]:
        found: dict[bool, float] = {}
        for guarded in (False, True):
            with broker(name, guarded) as (address, pid):
                found[guarded] = asyncio.run(cost(address, pid, guarded, given.seconds))
        ratio = found[True] / found[False]
        print(f"{name}: unsigned {found[False]:.1f} µs, signed {found[True]:.1f} µs, {ratio:.2f} times")


if __name__ == "__main__":
    main()
