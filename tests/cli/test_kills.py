"""A broker process under load from four producers is killed again and again: nothing acknowledged is lost."""

import asyncio
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from ariane import Message, MessageQueue, aio
from ariane.errors import ArianeError
from tests.cli.programs import Program, program
from tests.peers.jvm import free_port, listening, until

KILLS = 25  # in each of the two modes
WRITERS = 4
TOPIC = "orders"


class Load:
    """Four writers, each with a queue of its own; `acknowledged` has the numbers whose send returned."""

    def __init__(self, producer: aio.Producer) -> None:
        self._producer = producer
        self._next = [0] * WRITERS
        self._enough = asyncio.Event()
        self._killed = asyncio.Event()
        self._wanted = 0
        self.acknowledged: list[list[int]] = [[] for _ in range(WRITERS)]

    async def until_killed(self, broker: Program, count: int) -> None:
        """Write until `count` messages are acknowledged, then kill the broker under the writers."""
        self._wanted = count
        self._enough.clear()
        self._killed.clear()
        writers = [asyncio.ensure_future(self._write(writer)) for writer in range(WRITERS)]
        await asyncio.wait_for(self._enough.wait(), 120)
        broker.process.send_signal(signal.SIGKILL)
        self._killed.set()
        await asyncio.gather(*writers)
        broker.process.wait(60)

    async def _write(self, writer: int) -> None:
        queue = MessageQueue(TOPIC, "a", writer)
        while not self._killed.is_set():
            number = self._next[writer]
            self._next[writer] += 1
            try:
                await self._producer.send(Message(TOPIC, b"%d" % number), queue=queue)
            except ArianeError:  # killed; or not registered yet; or the machine is so busy that this one took too long
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._killed.wait(), 0.05)
                continue
            self.acknowledged[writer].append(number)
            self._wanted -= 1
            if self._wanted == 0:
                self._enough.set()


def _configure(folder: Path, names: int, port: int, flush: str) -> None:
    (folder / "broker.conf").write_text(
        f"brokerName=a\nbrokerIP1=127.0.0.1\nlistenPort={port}\nnamesrvAddr=127.0.0.1:{names}\n"
        f"storePathRootDir={folder}/store\nflushDiskType={flush}\nmappedFileSizeCommitLog=131072\n"
        "maxHashSlotNum=1000\nmaxIndexNum=4000\nmappedFileSizeConsumeQueue=4000\ndiskMaxUsedSpaceRatio=95\n"
    )


def _start(folder: Path, port: int) -> Program:
    broker = Program(folder, "mqbroker", "-c", "broker.conf")
    broker.await_text(f"is ready on 127.0.0.1:{port}")  # and registered: its port opens before that
    return broker


async def _stored(client: aio.PullClient, writer: int) -> list[int]:
    queue, numbers = MessageQueue(TOPIC, "a", writer), []
    while messages := await client.pull_messages(queue, len(numbers)):
        numbers += [int(message.body) for message in messages]
    return numbers


@pytest.mark.timeout(1200)  # two dozen starts of a broker, on a machine that may be busy
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_nothing_acknowledged_is_lost_and_order_is_kept(flush: str, tmp_path: Path) -> None:
    chance = random.Random(flush)
    names, port = free_port(), free_port(-2, 1)
    name_servers = f"127.0.0.1:{names}"
    _configure(tmp_path, names, port, flush)
    with program(tmp_path, "ariane", "namesrv", "--listen-port", str(names)):
        until(lambda: listening(names), 120, "the name server's port")
        broker = _start(tmp_path, port)
        try:
            async with aio.Admin(name_servers=name_servers) as admin:
                await admin.create_topic(TOPIC, queues=WRITERS)
            async with aio.Producer("kills", name_servers=name_servers) as producer:
                load = Load(producer)
                for _ in range(KILLS):
                    await load.until_killed(broker, chance.randrange(10, 120))
                    broker = _start(tmp_path, port)
            async with aio.PullClient("kills", name_servers=name_servers) as client:
                stored = [await _stored(client, writer) for writer in range(WRITERS)]
        finally:
            broker.process.kill()
            broker.process.wait()
    for writer in range(WRITERS):
        assert stored[writer] == sorted(set(stored[writer]))
        assert set(load.acknowledged[writer]) <= set(stored[writer])
    assert sum(map(len, load.acknowledged)) >= KILLS * 10
