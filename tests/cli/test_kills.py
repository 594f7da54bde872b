"""A broker process under load from four producers is killed again and again: nothing acknowledged is lost."""

import asyncio
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from ariane import Message, MessageQueue, aio
from ariane.env import SystemClock
from ariane.errors import ArianeError, RemotingError
from ariane.protocol.bodies import TopicConfigTable
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.units import decode_units
from ariane.remoting import Client
from tests.broker.talk import pull_fields, send_fields
from tests.broker.test_topics import create_fields
from tests.cli.programs import Program, program
from tests.peers.jvm import free_port, listening, until

pytestmark = pytest.mark.slow

KILLS, DEEP_KILLS = 8, 25  # in each of the two modes
WRITERS = 4
CREATORS = 6
CREATOR_KILLS = 4
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


def configure(folder: Path, names: int, port: int, flush: str, more: str = "") -> None:
    (folder / "broker.conf").write_text(
        f"brokerName=a\nbrokerIP1=127.0.0.1\nlistenPort={port}\nnamesrvAddr=127.0.0.1:{names}\n"
        f"storePathRootDir={folder}/store\nflushDiskType={flush}\nmappedFileSizeCommitLog=131072\n"
        "maxHashSlotNum=1000\nmaxIndexNum=4000\nmappedFileSizeConsumeQueue=4000\ndiskMaxUsedSpaceRatio=95\n"
        f"{more}"
    )


def start(folder: Path, port: int) -> Program:
    """Start the broker of a folder and wait until clients can use it."""
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
async def test_nothing_acknowledged_is_lost_and_order_is_kept(flush: str, tmp_path: Path, deep: bool) -> None:
    kills = DEEP_KILLS if deep else KILLS
    chance = random.Random(flush)
    names, port = free_port(), free_port(-2, 1)
    name_servers = f"127.0.0.1:{names}"
    configure(tmp_path, names, port, flush)
    with program(tmp_path, "ariane", "namesrv", "--listen-port", str(names)):
        until(lambda: listening(names), 120, "the name server's port")
        broker = start(tmp_path, port)
        try:
            async with aio.Admin(name_servers=name_servers) as admin:
                await admin.create_topic(TOPIC, queues=WRITERS)
            async with aio.Producer("kills", name_servers=name_servers) as producer:
                load = Load(producer)
                for _ in range(kills):
                    await load.until_killed(broker, chance.randrange(10, 120))
                    broker = start(tmp_path, port)
            async with aio.PullClient("kills", name_servers=name_servers) as client:
                stored = [await _stored(client, writer) for writer in range(WRITERS)]
        finally:
            broker.process.kill()
            broker.process.wait()
    for writer in range(WRITERS):
        assert stored[writer] == sorted(set(stored[writer]))
        assert set(load.acknowledged[writer]) <= set(stored[writer])
    assert sum(map(len, load.acknowledged)) >= kills * 10


class Creators:
    """Six clients, each of which sends one message to a new topic again and again."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._next = 0
        self._wanted = 0
        self._enough = asyncio.Event()
        self._killed = asyncio.Event()
        self.acknowledged: list[str] = []
        self.created: list[str] = []

    async def until_killed(self, broker: Program, count: int) -> None:
        """Create topics until `count` are acknowledged, then kill the broker under the clients."""
        self._wanted = count
        self._enough.clear()
        self._killed.clear()
        clients = [asyncio.ensure_future(self._create(client)) for client in range(CREATORS)]
        await asyncio.wait_for(self._enough.wait(), 120)
        broker.process.send_signal(signal.SIGKILL)
        self._killed.set()
        await asyncio.gather(*clients)
        broker.process.wait(60)

    async def _create(self, client: int) -> None:
        """Half of the clients create by sending, the others by an operator's request."""
        connection = Client(clock=SystemClock())
        try:
            while not self._killed.is_set():
                self._next += 1
                topic, code, fields = f"topic-{self._next}", RequestCode.SEND_MESSAGE_V2, send_fields
                if client % 2:
                    code, fields = RequestCode.UPDATE_AND_CREATE_TOPIC, create_fields
                answer = await connection.request(self._address, Command(code, fields(topic), b"x"), 60)
                assert answer.code == 0, answer.remark
                (self.created if client % 2 else self.acknowledged).append(topic)
                self._wanted -= 1
                if self._wanted == 0:
                    self._enough.set()
        except RemotingError:
            assert self._killed.is_set()
        finally:
            await connection.close()


@pytest.mark.timeout(600)
async def test_topics_created_by_many_clients_at_once_are_there_after_kills(tmp_path: Path) -> None:
    chance = random.Random("topics")
    port = free_port(-2, 1)
    configure(tmp_path, free_port(), port, "ASYNC_FLUSH")
    address = f"127.0.0.1:{port}"
    creators = Creators(address)
    broker = start(tmp_path, port)
    try:
        for _ in range(CREATOR_KILLS):
            await creators.until_killed(broker, chance.randrange(20, 60))
            broker = start(tmp_path, port)
        connection = Client(clock=SystemClock())
        try:
            for topic in creators.acknowledged:
                pulled = await connection.request(address, Command(RequestCode.PULL_MESSAGE, pull_fields(topic)), 60)
                assert (pulled.code, topic) == (0, topic)
            table = await connection.request(address, Command(RequestCode.GET_ALL_TOPIC_CONFIG), 60)
            assert set(creators.created) <= set(TopicConfigTable.decode(table.body).topic_config_table)
        finally:
            await connection.close()
    finally:
        broker.process.kill()
        broker.process.wait()
    assert creators.acknowledged
    assert creators.created


@pytest.mark.timeout(600)
async def test_offsets_and_delayed_messages_go_on_where_a_killed_broker_was(tmp_path: Path) -> None:
    """The whole files are written once an hour here: what survives, the journals hold."""
    port = free_port(-2, 1)
    rare = "flushConsumerOffsetInterval=3600000\nflushDelayOffsetInterval=3600000\nmessageDelayLevel=1s\n"
    configure(tmp_path, free_port(), port, "ASYNC_FLUSH", rare)
    config = tmp_path / "store" / "config"

    async def ask(code: int, fields: dict[str, str], body: bytes = b"") -> Command:
        connection = Client(clock=SystemClock())
        try:
            answer = await connection.request(f"127.0.0.1:{port}", Command(code, fields, body), 60)
        finally:
            await connection.close()
        assert answer.code == 0, answer.remark
        return answer

    where = {"topic": TOPIC, "queueId": "0"}
    broker = start(tmp_path, port)
    try:
        for round in range(1, 4):
            await ask(RequestCode.SEND_MESSAGE_V2, send_fields(TOPIC, properties="DELAY\x011\x02"), b"%d" % round)
            until(lambda: b'"1":%d' % round in _read(config / "delayOffset.journal"), 120, "progress")  # noqa: B023
            commit = {**where, "consumerGroup": "g", "commitOffset": str(round)}
            await ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            until(lambda: b":%d}" % round in _read(config / "consumerOffset.journal"), 120, "offsets")  # noqa: B023
            broker.process.kill()
            broker.process.wait()
            broker = start(tmp_path, port)
            committed = await ask(RequestCode.QUERY_CONSUMER_OFFSET, {**where, "consumerGroup": "g"})
            assert committed.fields["offset"] == str(round)
            pulled = await ask(RequestCode.PULL_MESSAGE, pull_fields(TOPIC))
            assert [unit.body for unit in decode_units(pulled.body)] == [b"%d" % n for n in range(1, round + 1)]
    finally:
        broker.process.kill()
        broker.process.wait()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
