"""How long clients cannot send after kill -9 of a group's leader: our Python client and Apache's Java client.

    python -m tests.dledger.failover --rounds 5

The killed member is started again at once, as a supervisor does, or left down.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ariane import Message, aio
from ariane.errors import ArianeError
from tests.dledger.chaos import Processes
from tests.peers import Driver, build
from tests.peers.aio import aio as java_aio
from tests.peers.driver import PeerError

TOPIC = "failover"
AS_SHIPPED = 30_000  # Apache's pollNameServerInterval in milliseconds

Send = Callable[[], Awaitable[object]]


async def run(send: Send, group: Processes, rounds: int, *, restarted: bool) -> list[float]:
    """Seconds from each kill to the next send that succeeds."""
    times = []
    for _ in range(rounds):
        await acknowledged(send)
        leader = await group.leader()
        await acknowledged(send)
        group.kill(leader)
        at = time.monotonic()
        if restarted:
            group.start(leader)
        await acknowledged(send)
        times.append(time.monotonic() - at)
        if not restarted:
            group.start(leader)
        await group.back(leader)
    return times


async def acknowledged(send: Send) -> None:
    """Send until it succeeds."""
    async with asyncio.timeout(120):
        while True:
            try:
                await send()
                return
            except (ArianeError, PeerError):
                await asyncio.sleep(0.02)


async def start(root: Path) -> Processes:
    """A group that serves."""
    group = Processes(root)
    await group.start_links()
    group.start_name_server()
    for id in group.peers:
        group.start(id)
    await group.leader()
    return group


async def python_client(group: Processes, rounds: int, *, restarted: bool) -> list[float]:
    """The times of our client with its default options."""
    async with aio.Producer("python", name_servers=group.name_servers) as producer:
        return await run(lambda: producer.send(Message(TOPIC, b"x")), group, rounds, restarted=restarted)


async def java_client(
    driver: Driver, group: Processes, rounds: int, *, restarted: bool, poll: int = AS_SHIPPED
) -> list[float]:
    """The times of Apache's client with its default options, and another route poll if one is given."""
    options = {"pollNameServerInterval": poll, "heartbeatBrokerInterval": 30_000, "sendMsgTimeout": 3000}
    async with await java_aio(driver).producer(group.name_servers, **options) as producer:
        return await run(lambda: producer.send(TOPIC, b"x"), group, rounds, restarted=restarted)


async def measure(root: Path, rounds: int) -> None:
    driver = await asyncio.to_thread(Driver, build(), root)
    try:
        group = await start(root)
        try:
            for restarted in (True, False):
                kind = "started again" if restarted else "left down"
                show("Python", kind, await python_client(group, rounds, restarted=restarted))
                show("Java", kind, await java_client(driver, group, rounds, restarted=restarted))
            times = await java_client(driver, group, rounds, restarted=False, poll=1000)
            show("Java, routes each second", "left down", times)
        finally:
            await group.stop()
    finally:
        await asyncio.to_thread(driver.close)


def show(client: str, kind: str, times: list[float]) -> None:
    """Print one line."""
    text = f"median {statistics.median(times):.2f} s, longest {max(times):.2f} s of {len(times)}"
    print(f"{client}, killed leader {kind}: {text}", flush=True)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dledger-failover-") as folder:
        asyncio.run(measure(Path(folder), arguments.rounds))


if __name__ == "__main__":
    main()
