"""Kills the master of a pair of real brokers under load, again and again, and reads the slave's log out each time.

    python -m tests.ha.chaos --kills 100

Each round sends to a SYNC_MASTER with several senders, kills it with SIGKILL, and looks for every acknowledged message
in the files of the slave. In every third round the master's disk is wiped too: the slave is promoted, and the wiped
broker comes back as its slave. Messages are acknowledged, in order, at one queue offset each, and never lost.
"""

import argparse
import asyncio
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ariane.env import SystemClock
from ariane.errors import ArianeError
from ariane.protocol.codes import PROMOTE_BROKER, RequestCode
from ariane.protocol.command import Command
from ariane.protocol.units import decode_units
from ariane.remoting import Client
from tests.broker.talk import SMALL, send_fields
from tests.peers.jvm import free_port, listening

TOPIC = "TopicTest"
QUEUES = 4
SENDERS = 8
PATIENCE = 120.0
MAGIC, BLANK = 0xDAA320A7, 0xCBD43194


class HasPort(Protocol):
    """A broker, ours or Apache's."""

    port: int


class Node:
    """A broker process, its folder and its port."""

    def __init__(self, folder: Path, options: dict[str, object] | None = None) -> None:
        self.folder = folder
        self.port = free_port(-2, 1)
        self.slave_id = 1
        self._options = options or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self, role: str, master: HasPort | None = None) -> None:
        """Start the broker and wait until it listens."""
        self._run(role, master)

        def ready() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:  # another program had the port for a moment
                self._run(role, master)
                return False
            return listening(self.port) and listening(self.port + 1) == (master is None)

        await until(ready, f"{self.folder.name} to listen")

    def _run(self, role: str, master: HasPort | None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        store = self.folder / "store"
        values = {
            **SMALL,
            "brokerName": "pair",
            "brokerRole": role,
            "brokerId": 0 if master is None else self.slave_id,
            "listenPort": self.port,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "mappedFileSizeCommitLog": 1 << 20,
            "haSendHeartbeatInterval": 500,
            "enablePropertyFilter": "true",
            **self._options,
        }
        if master is not None:
            values["haMasterAddress"] = f"127.0.0.1:{master.port + 1}"
        conf = self.folder / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ariane", "broker", "-c", str(conf)], stdout=log, stderr=log, cwd=self.folder
            )

    def kill(self) -> None:
        """End the process without warning."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask the process to end."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def end_of_log(self) -> str:
        """What the broker wrote last, for a test that fails."""
        return f"--- {self.folder}\n{(self.folder / 'broker.log').read_text(errors='replace')[-4000:]}"

    def wipe(self) -> None:
        """Lose the disk."""
        shutil.rmtree(self.folder / "store")

    def messages(self) -> Iterator[tuple[int, int, bytes]]:
        """Queue, queue offset and body of every message in the log, read from its files."""
        for path in sorted((self.folder / "store" / "commitlog").iterdir()):
            data, at = path.read_bytes(), 0
            while at + 8 <= len(data):
                size, magic = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")
                if magic != MAGIC:
                    assert magic in (BLANK, 0), f"no record at {at} of {path}"
                    break
                for unit in decode_units(data[at : at + size]):
                    if unit.topic == TOPIC.encode():
                        yield unit.queue_id, unit.queue_offset, unit.body
                at += size


@dataclass
class Book:
    """Everything that was acknowledged: body to queue and queue offset."""

    acknowledged: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    order: dict[int, list[bytes]] = field(default_factory=dict)
    """Of each sender, what was acknowledged to it, in its order."""
    other: int = 0
    """Answers that promise nothing: FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE, errors."""

    def check(self, node: Node) -> None:
        """Every acknowledged message is in a node's log, where it was said to be, and in the order of its sender."""
        found: dict[bytes, tuple[int, int]] = {}
        taken: dict[tuple[int, int], bytes] = {}
        position: dict[bytes, int] = {}
        for number, (queue, offset, body) in enumerate(node.messages()):
            assert (queue, offset) not in taken, f"queue offset {queue}/{offset} was given twice"
            taken[queue, offset] = body
            found[body] = (queue, offset)
            position[body] = number
        lost = [body for body in self.acknowledged if body not in found]
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} acknowledged messages are lost: {lost[:5]}"
        moved = [body for body, place in self.acknowledged.items() if found[body] != place]
        assert not moved, f"{len(moved)} messages are not where they were acknowledged: {moved[:5]}"
        for bodies in self.order.values():
            places = [position[body] for body in bodies]
            assert places == sorted(places), "the order of a sender is not kept"


async def until(ready: Callable[[], object], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not ready():
        assert asyncio.get_running_loop().time() < deadline, f"waited {PATIENCE:g} s for {what}"
        await asyncio.sleep(0.02)


class Load:
    """Senders that go on until they are stopped or the master is gone."""

    def __init__(self, book: Book, number: int) -> None:
        self._book = book
        self._number = number
        self.good = 0
        self.stopped = False

    async def run(self, address: str) -> None:
        """Send until `stopped` is set, whatever fails."""
        client = Client(clock=SystemClock())
        try:
            await asyncio.gather(*(self._sender(client, address, sender) for sender in range(SENDERS)))
        finally:
            await client.close()

    async def _sender(self, client: Client, address: str, sender: int) -> None:
        count = 0
        while not self.stopped:
            body = b"%d-%d-%d" % (self._number, sender, count)
            count += 1
            fields = send_fields(TOPIC, queue_id=sender % QUEUES)
            try:
                answer = await client.request(address, Command(RequestCode.SEND_MESSAGE_V2, fields, body), 10)
            except (ArianeError, OSError):
                await asyncio.sleep(0.05)
                continue
            if answer.code == 0:
                self.good += 1
                place = (int(answer.fields["queueId"]), int(answer.fields["queueOffset"]))
                self._book.acknowledged[body] = place
                self._book.order.setdefault(self._number * SENDERS + sender, []).append(body)
            else:
                self._book.other += 1
                await asyncio.sleep(0.01)


async def chaos(folder: Path, kills: int, seed: int = 0) -> Book:
    """Run `kills` rounds; raises AssertionError when something acknowledged is not there."""
    chance = random.Random(seed)
    master, slave = Node(folder / "one"), Node(folder / "two")
    book = Book()
    try:
        await master.start("SYNC_MASTER")
        await slave.start("SLAVE", master)
        for number in range(kills):
            load = Load(book, number)
            sending = asyncio.create_task(load.run(master.address))
            wanted = chance.randrange(50, 400)
            await until(lambda load=load, wanted=wanted: load.good >= wanted, "acknowledged messages")  # type: ignore[misc]
            master.kill()
            load.stopped = True
            await sending
            book.check(slave)
            if number % 3 == 2:
                master.wipe()
                await promote(slave)
                master, slave = slave, master
                await slave.start("SLAVE", master)
            else:
                await master.start("SYNC_MASTER")
    except AssertionError:
        for node in (master, slave):
            print(node.end_of_log(), file=sys.stderr)
        raise
    finally:
        master.kill()
        slave.kill()
    return book


async def promote(node: Node) -> None:
    """Make a slave the master, whatever it knows of others."""
    client = Client(clock=SystemClock())
    try:
        fields = {"brokerName": "pair", "force": "true", "sync": "true"}
        answer = await client.request(node.address, Command(PROMOTE_BROKER, fields), PATIENCE)
        assert answer.code == 0, answer.remark
    finally:
        await client.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        book = asyncio.run(chaos(Path(folder), arguments.kills, arguments.seed))
    print(
        f"{arguments.kills} kills: {len(book.acknowledged)} acknowledged, 0 lost, {book.other} sends without a promise"
    )


if __name__ == "__main__":
    main()
