"""Real power cuts of a master and its slave together, each on a file system of its own.

    python -m tests.ha.power --cuts 20

Each round sends to a SYNC_MASTER with several senders, cuts the power of both file systems, promotes the slave, and
looks for every acknowledged message in its log. The old master comes back as the slave of the new one, with the store
that its own power cut left. With `--received` slaves report as Apache's do, before they flush, and the run must lose
some.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.ha.chaos import Book, Load, Node, promote, until
from tests.power_cut import PowerCutDisk, missing


async def run(root: Path, cuts: int, *, report: str = "flushed", seed: int = 0) -> tuple[int, int]:
    """Cut the power until something is lost; returns how many messages were acknowledged, and how many are lost."""
    chance = random.Random(seed)
    book = Book()
    with ExitStack() as stack:
        disks = [stack.enter_context(PowerCutDisk(root / name)) for name in ("one", "two")]
        master, slave = (Node(disk.folder / "broker", {"haReport": report}) for disk in disks)
        try:
            await master.start("SYNC_MASTER")
            for number in range(cuts):
                await slave.start("SLAVE", master)
                await _send_until_the_cut(book, number, chance.randrange(100, 400), master, slave, disks)
                for disk in disks:
                    disk.restore()
                await slave.start("SLAVE", master)
                await promote(slave)
                master, slave = slave, master
                slave.slave_id += 1  # config/role.json makes it a master until its broker.conf is changed
                if lost := len(book.acknowledged.keys() - {body for _, _, body in master.messages()}):
                    return len(book.acknowledged), lost
                book.check(master)
        except AssertionError:
            for node in (master, slave):
                print(node.end_of_log(), file=sys.stderr)
            raise
        finally:
            master.kill()
            slave.kill()
    return len(book.acknowledged), 0


async def _send_until_the_cut(
    book: Book, number: int, wanted: int, master: Node, slave: Node, disks: list[PowerCutDisk]
) -> None:
    """The power of both fails while sends are in progress; what is still answered from memory counts too."""
    load = Load(book, number)
    sending = asyncio.create_task(load.run(master.address))
    await until(lambda: load.good >= wanted, "acknowledged messages")
    for disk in disks:
        disk.cut()
    master.kill()
    slave.kill()
    load.stopped = True
    await sending


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--received", action="store_true", help="slaves report what they have received, as Apache's")
    arguments = parser.parse_args()
    if reason := missing():
        raise SystemExit(f"power cuts: {reason}")
    report = "received" if arguments.received else "flushed"
    with tempfile.TemporaryDirectory(prefix="ha-power-") as folder:
        acknowledged, lost = asyncio.run(run(Path(folder), arguments.cuts, report=report, seed=arguments.seed))
    print(f"at most {arguments.cuts} power cuts of both: {acknowledged} acknowledged, {lost} lost")
    if bool(lost) != arguments.received:
        raise SystemExit("lost acknowledged messages" if lost else "lost nothing although nothing was flushed")


if __name__ == "__main__":
    main()
