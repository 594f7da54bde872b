"""Real power cuts of all three members together, each on a file system of its own.

    python -m tests.dledger.power --cuts 50

After each cut the group must lead again and serve every message that was acknowledged before. With `--memory`
(dLegerDurableAck=false) messages are acknowledged before any disk has them, and the run must lose some.
"""

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

from ariane import Message, aio
from ariane.errors import ArianeError
from tests.dledger.chaos import QUEUES, TOPIC, Processes
from tests.dledger.group import until
from tests.power_cut import PowerCutDisk, missing

SENDERS = 8


async def run(root: Path, cuts: int, *, durable: bool = True) -> tuple[int, int]:
    """Cut the power again and again; returns how many messages were acknowledged, and how many of them are lost."""
    acknowledged: set[str] = set()
    lost = 0
    with ExitStack() as stack:
        disks = {id: stack.enter_context(PowerCutDisk(root / f"disk-{id}")) for id in ("n0", "n1", "n2")}
        options = {} if durable else {"dLegerDurableAck": "false"}
        group = Processes(root, homes={id: disk.folder for id, disk in disks.items()}, options=options)
        try:
            await group.start_links()
            group.start_name_server()
            for cut in range(cuts):
                for id in group.peers:
                    group.start(id)
                await group.leader()  # it leads again after each cut
                acknowledged |= await _send_until_the_cut(group, disks, cut)
                for disk in disks.values():
                    disk.restore()
            for id in group.peers:
                group.start(id)
            leader = await group.leader()
            found = {body for queue in range(QUEUES) for _, body in await group.messages(leader, queue)}
            lost = len(acknowledged - found)
        finally:
            await group.stop()
    return len(acknowledged), lost


async def _send_until_the_cut(group: Processes, disks: dict[str, PowerCutDisk], cut: int) -> set[str]:
    """Send from several tasks; the power fails while sends are in progress."""
    acknowledged: set[str] = set()
    failed = False

    async def sender(number: int) -> None:
        async with aio.Producer(
            f"sender{number}", name_servers=group.name_servers, send_timeout=3.0, retries=0, route_interval=0.1
        ) as producer:
            count = 0
            while not failed:
                body, count = f"{cut}-{number}-{count}", count + 1
                try:
                    await producer.send(Message(TOPIC, body.encode()))
                except ArianeError:
                    await asyncio.sleep(0.02)
                    continue
                acknowledged.add(body)

    tasks = [asyncio.create_task(sender(number)) for number in range(SENDERS)]
    await until(lambda: len(acknowledged) >= 200)
    for disk in disks.values():
        disk.cut()
    # What a process still answers from memory was acknowledged too.
    for id in group.peers:
        group.kill(id)
    failed = True
    await asyncio.gather(*tasks)
    return acknowledged


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--memory", action="store_true", help="acknowledge what a majority has in memory")
    arguments = parser.parse_args()
    if reason := missing():
        raise SystemExit(f"power cuts: {reason}")
    with tempfile.TemporaryDirectory(prefix="dledger-power-") as folder:
        acknowledged, lost = asyncio.run(run(Path(folder), arguments.cuts, durable=not arguments.memory))
    print(f"{arguments.cuts} power cuts of all members, {acknowledged} acknowledged, {lost} lost")
    if bool(lost) != arguments.memory:
        raise SystemExit("lost acknowledged messages" if lost else "lost nothing although nothing was synced")


if __name__ == "__main__":
    main()
