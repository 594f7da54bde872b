"""Restarts of an Apache broker and of ours at random times, one the master and the other its slave, under load.

    python -m tests.replication.restarts slave --rounds 10    # Apache's slave under our master
    python -m tests.replication.restarts master --rounds 10   # our slave under Apache's master

Each round sends messages of all kinds while brokers are killed and stopped and started again, at times that a seed
decides. Then both must have the same log, byte for byte, the same topics and groups, and the same queues and offsets.
"""

import argparse
import asyncio
import logging
import random
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ariane import (
    ConsumeFrom,
    Message,
    ReceivedMessage,
    SendResult,
    TransactionListener,
    TransactionState,
    aio,
)
from ariane.broker.replication.peers import Peers
from ariane.env import Env, SystemClock
from ariane.errors import ArianeError
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.protocol.bodies import ConsumerOffsetTable, SubscriptionGroupTable, TopicConfigTable
from ariane.protocol.codes import RequestCode
from ariane.remoting import Client
from tests.client.inbox import Inbox
from tests.ha.chaos import Node
from tests.peers import ApacheBroker, Build, build
from tests.peers.fixtures import QUICK

TOPIC, GROUP = "TopicTest", "readers"
PATIENCE = 240.0
SOON: dict[str, Any] = {"route_interval": 0.5, "heartbeat_interval": 2.0}


class Decide(TransactionListener):
    """Commits, rolls back, or leaves it to a check."""

    def execute(self, message: Message, sent: SendResult, argument: object) -> TransactionState:
        return list(TransactionState)[len(message.body) % 3]

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


class Load:
    """Sends messages of all kinds, and consumes, until it is stopped, whatever fails."""

    def __init__(self, name_servers: str, seed: int) -> None:
        self._names = name_servers
        self._chance = random.Random(seed)
        self.sent = 0
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Load":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopped.set()
        assert self._task is not None
        await self._task

    async def _run(self) -> None:
        common: dict[str, Any] = {"name_servers": self._names, "send_timeout": 3.0, "retries": 0, **SOON}
        reading = aio.PushConsumer(
            GROUP,
            TOPIC,
            Inbox(),
            name_servers=self._names,
            consume_from=ConsumeFrom.FIRST,
            persist_interval=0.5,
            **SOON,
        )
        async with (
            reading,
            aio.Producer("senders", **common) as plain,
            aio.TransactionProducer("deciders", Decide(), **common) as deciding,
        ):
            while not self._stopped.is_set():
                try:
                    await self._send(plain, deciding)
                except ArianeError:
                    await asyncio.sleep(0.05)
                else:
                    self.sent += 1
                await asyncio.sleep(0.001)

    async def _send(self, plain: aio.Producer, deciding: aio.TransactionProducer) -> None:
        chance, body = self._chance, self._chance.randbytes(self._chance.randrange(1, 3000))
        match chance.randrange(8):
            case 0:
                await plain.send_batch([Message(TOPIC, b"batch %d" % n) for n in range(chance.randrange(1, 20))])
            case 1:
                await plain.send(Message(TOPIC, body, delay_level=chance.randrange(1, 4)))
            case 2:
                await deciding.send_in_transaction(Message(TOPIC, body))
            case 3:
                await plain.send(Message(TOPIC, body * 20, properties={"a": "b\u00e9"}, tags="T"))
            case _:
                await plain.send(Message(TOPIC, body, keys=[f"k{self.sent}"], tags=chance.choice("ABC")))


async def until(ready: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait on events of other processes."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not await ready():
        assert asyncio.get_running_loop().time() < deadline, f"waited {PATIENCE:g} s for {what}"
        await asyncio.sleep(0.2)


class MixedPair:
    """Our broker as a process, Apache's, and a name server in this process."""

    def __init__(self, jars: Build, folder: Path, apache_role: str, names: str, peers: Peers) -> None:
        self._jars, self._folder, self._names, self._peers = jars, folder, names, peers
        self._apache_is_slave = apache_role == "slave"
        self.ours = Node(folder / "ours", {"namesrvAddr": names, "slaveReadEnable": "true", **QUICK})
        self.apache: ApacheBroker | None = None

    async def start_ours(self) -> None:
        if self._apache_is_slave:
            await self.ours.start("ASYNC_MASTER")
        else:
            assert self.apache is not None
            await self.ours.start("SLAVE", self.apache)

    async def start_apache(self) -> None:
        if self.apache is not None:
            await asyncio.to_thread(self.apache.restart)
            return
        role = {"brokerRole": "SLAVE", "brokerId": 1} if self._apache_is_slave else {}
        config = {"brokerName": "pair", "mappedFileSizeCommitLog": 1 << 20, **QUICK, **role}
        home = self._folder / "apache"
        home.mkdir(parents=True)
        self.apache = await asyncio.to_thread(ApacheBroker, self._jars, home, self._names, config=config)

    async def restart_one(self, chance: random.Random) -> str:
        """Kill or stop one broker, wait a moment, start it again."""
        assert self.apache is not None
        which, how = chance.choice(("ours", "apache")), chance.choice(("kill", "stop"))
        broker = self.ours if which == "ours" else self.apache
        await asyncio.to_thread(broker.kill if how == "kill" else broker.stop)
        await asyncio.sleep(chance.uniform(0, 1.5))
        await (self.start_ours() if which == "ours" else self.start_apache())
        return f"{how} {which}"

    async def stop(self) -> None:
        self.ours.kill()
        if self.apache is not None:
            await asyncio.to_thread(self.apache.kill)

    async def compare(self) -> int:
        """Wait until both agree, and compare everything; returns the end of the log."""
        assert self.apache is not None
        ours, apache = (self.ours.address, self.ours.folder / "store"), (self.apache.address, self.apache.store)
        (master, master_store), (slave, slave_store) = (ours, apache) if self._apache_is_slave else (apache, ours)
        end = 0

        async def caught_up() -> bool:
            nonlocal end
            with suppress(ArianeError):
                end = (await self._peers.state(master)).log_max
                return (await self._peers.state(slave)).log_max >= end > 0
            return False

        async def same_tables() -> bool:
            with suppress(ArianeError):
                return await self._tables(master) == await self._tables(slave)
            return False

        await until(same_tables, "the same tables and queues on both")
        await until(caught_up, "the slave to catch up")
        copies = [log_bytes(store, end) for store in (master_store, slave_store)]
        assert len(copies[0]) == end
        assert copies[0] == copies[1], "the logs differ"
        return end

    async def _tables(self, address: str) -> tuple[object, ...]:
        async def body(code: RequestCode, **fields: str) -> bytes:
            return (await self._peers.ask(address, code, fields)).body

        offsets = ConsumerOffsetTable.decode(await body(RequestCode.GET_ALL_CONSUMER_OFFSET)).offset_table
        return (
            TopicConfigTable.decode(await body(RequestCode.GET_ALL_TOPIC_CONFIG)),
            SubscriptionGroupTable.decode(await body(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)),
            {key: queues for key, queues in offsets.items() if key.endswith(f"@{GROUP}")},
            sorted(await body(RequestCode.GET_TOPIC_STATS_INFO, topic=TOPIC)),
        )


def log_bytes(store: Path, end: int) -> bytes:
    """The log from its first file to `end`."""
    files = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    return b"".join(path.read_bytes() for path in files)[: end - int(files[0].name)]


async def run(jars: Build, folder: Path, apache_role: str, rounds: int, seed: int = 0) -> tuple[int, int, list[str]]:
    """Run rounds; returns messages sent, bytes of the log, and what was done. AssertionError when the two differ."""
    chance = random.Random(seed)
    options = NamesrvOptions.load(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder}/kv.json\n")
    names = NameServer(options, Env())
    await names.start()
    client = Client(clock=SystemClock())
    pair = MixedPair(jars, folder, apache_role, names.address, Peers(client, "pair", lambda: [names.address]))
    sent, end, done = 0, 0, list[str]()
    try:
        for start in (pair.start_ours, pair.start_apache) if apache_role == "slave" else (
            pair.start_apache, pair.start_ours,
        ):  # fmt: skip
            await start()
        for _ in range(rounds):
            async with Load(names.address, chance.randrange(1 << 30)) as load:
                for _ in range(chance.randrange(1, 3)):
                    wanted = load.sent + chance.randrange(20, 300)
                    await until(lambda: _is(load.sent >= wanted), "messages")  # noqa: B023
                    done.append(await pair.restart_one(chance))
                wanted = load.sent + 20
                await until(lambda: _is(load.sent >= wanted), "messages after the restart")  # noqa: B023
            sent += load.sent
            end = await pair.compare()
    except AssertionError:
        print(f"after {done}\n{pair.ours.end_of_log()}")
        raise
    finally:
        await pair.stop()
        await client.close()
        await names.stop()
    return sent, end, done


async def _is(value: bool) -> bool:
    return value


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("apache", choices=("master", "slave"), help="what Apache's broker is")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("ariane").setLevel(logging.ERROR)  # clients report each lost connection
    with tempfile.TemporaryDirectory(prefix="restarts-") as folder:
        sent, end, done = asyncio.run(run(build(), Path(folder), arguments.apache, arguments.rounds, arguments.seed))
    print(f"Apache's {arguments.apache}: {arguments.rounds} rounds, {', '.join(done)}")
    print(f"{len(done)} restarts, {sent} sends, {end} bytes of log equal on both")


if __name__ == "__main__":
    main()
