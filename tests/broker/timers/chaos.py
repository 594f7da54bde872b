"""Kills the broker that holds pending messages, again and again, and promotes its copy: none is lost, none is early.

    python -m tests.broker.timers.chaos --count 100000 --kills 20 --span 60

Real processes: a SYNC_MASTER with its slave, of which every fourth kill makes the slave the master, then a DLedger
group of three, where every kill of the leader is a failover. Senders go on all the while. At the end every acknowledged
message was delivered, each not before its time, and one that was delivered twice was so before and after a kill or a
change of the leader.
"""

import argparse
import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ariane.env import SystemClock
from ariane.errors import ArianeError
from ariane.message import TIMER_DELIVER_MS
from ariane.protocol.codes import PROMOTE_BROKER, RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import decode_units
from ariane.remoting import Client
from tests.broker.talk import pull_fields, send_fields
from tests.dledger.chaos import Processes
from tests.ha.chaos import Node, until

TOPIC = "timed"
QUEUES = 4
SENDERS = 32
FIRST_DUE = 1.0  # seconds from a send until its message may be due
PATIENCE = 120.0


def now_ms() -> int:
    """The time by the clock that brokers use too."""
    return time.time_ns() // 1_000_000


class Target(Protocol):
    """Brokers under test."""

    failovers: int
    changes: list[tuple[int, int]]
    """Between which times, in milliseconds, a broker was killed or a group changed its leader."""

    async def start(self) -> None: ...

    async def address(self) -> str:
        """The broker to send to, and to read from, now."""
        ...

    async def kill(self) -> None:
        """Kill that broker, and let it, or its copy, go on."""
        ...

    async def stop(self) -> None: ...


class Pair:
    """A SYNC_MASTER and its slave; every so many kills the slave becomes the master."""

    def __init__(self, folder: Path, promote_every: int = 4) -> None:
        self._promote_every = promote_every
        self._master, self._slave = Node(folder / "one"), Node(folder / "two")
        self._client = Client(clock=SystemClock())
        self._kills = 0
        self.failovers = 0
        self.changes: list[tuple[int, int]] = []

    async def start(self) -> None:
        await self._master.start("SYNC_MASTER")
        await self._slave.start("SLAVE", self._master)

    async def address(self) -> str:
        return self._master.address

    async def kill(self) -> None:
        before = now_ms()
        self._master.kill()
        self.changes.append((before, now_ms()))
        self._kills += 1
        if self._kills % self._promote_every:
            await self._master.start("SYNC_MASTER")
            return
        fields = {"brokerName": "pair", "force": "true", "sync": "true"}
        answer = await self._client.request(self._slave.address, Command(PROMOTE_BROKER, fields), PATIENCE)
        assert answer.code == 0, answer.remark
        self.failovers += 1
        self._master, self._slave = self._slave, self._master
        # Without a name server that tells of a newer master, an earlier promotion would count more than its options.
        (self._slave.folder / "store" / "config" / "role.json").unlink(missing_ok=True)
        await self._slave.start("SLAVE", self._master)

    async def stop(self) -> None:
        await self._client.close()
        self._master.kill()
        self._slave.kill()


class Ledger:
    """A DLedger group of three; every kill of its leader is a failover."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._group = Processes(folder)
        self._watch: asyncio.Task[None] | None = None
        self.failovers = 0
        self.changes: list[tuple[int, int]] = []

    async def start(self) -> None:
        await self._group.start_links()
        self._group.start_name_server()
        for id in self._group.peers:
            self._group.start(id)
        await self._group.leader()
        self._watch = asyncio.create_task(self._watch_terms())

    async def _watch_terms(self) -> None:
        """Note every change of the leader: a busy machine causes some without a kill."""
        term, seen = -1, now_ms()
        while True:
            statuses = [await self._group.status(id) for id in self._group.peers]
            newest = max((status.term for status in statuses if status is not None), default=term)
            if newest != term:
                self.changes.append((seen, now_ms()))
                term = newest
            seen = now_ms()
            await asyncio.sleep(0.1)

    async def address(self) -> str:
        return f"127.0.0.1:{self._group.ports[await self._group.leader()]}"

    async def kill(self) -> None:
        id = await self._group.leader()
        before = now_ms()
        self._group.kill(id)
        self.changes.append((before, now_ms()))
        self.failovers += await self._group.leader() != id
        self._group.start(id)
        await self._group.back(id)

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await self._group.stop()


@dataclass
class Result:
    """What was sent and what came."""

    due: dict[bytes, int] = field(default_factory=dict)
    """When each acknowledged message is due, in milliseconds."""
    kills: int = 0
    failovers: int = 0
    twice: int = 0
    """Further copies."""
    latest_ms: int = 0
    """The longest time from when a message was due to its delivery, across kills."""
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{len(self.due)} acknowledged, {self.kills} kills, {self.failovers} failovers: 0 lost, 0 early, "
            f"{self.twice} delivered again after a kill, the latest {self.latest_ms / 1000:.1f} s after its time; "
            f"{self.seconds:.0f} s in all"
        )


async def run(target: Target, count: int, kills: int, span: float, seed: int = 0) -> Result:
    """Send `count` messages due within `span` seconds of their send, and kill meanwhile; AssertionError on a loss."""
    began, chance, result = time.monotonic(), random.Random(seed), Result()
    client = Client(clock=SystemClock())
    numbers = iter(range(count))
    try:
        await target.start()
        sending = [asyncio.create_task(_send(target, client, numbers, span, chance, result)) for _ in range(SENDERS)]
        for kill in range(kills):
            least = count * (kill + 1) // (kills + 1)  # spread over the sends
            await until(lambda least=least: len(result.due) >= least, "sends")  # type: ignore[misc]
            await target.kill()
            result.kills += 1
        await asyncio.gather(*sending)
        await _check(target, client, result)
        result.failovers = target.failovers
        result.seconds = time.monotonic() - began
        return result
    finally:
        await client.close()
        await target.stop()


async def _send(
    target: Target, client: Client, numbers: Iterator[int], span: float, chance: random.Random, result: Result
) -> None:
    address = await target.address()
    for number in numbers:
        for attempt in itertools.count():
            body = b"%d.%d" % (number, attempt)  # never sent twice: an unknown outcome is not tried again
            due = now_ms() + int(chance.uniform(FIRST_DUE, span) * 1000)
            properties = encode_properties({TIMER_DELIVER_MS: str(due)})
            fields = send_fields(TOPIC, queue_id=number % QUEUES, properties=properties)
            try:
                answer = await client.request(address, Command(RequestCode.SEND_MESSAGE_V2, fields, body), 10)
                if answer.code == ResponseCode.SUCCESS:
                    result.due[body] = due
                    break
            except ArianeError:
                pass
            await asyncio.sleep(0.2)
            address = await target.address()


async def _check(target: Target, client: Client, result: Result) -> None:
    """Read the topic until everything acknowledged has come, and compare."""
    copies: dict[bytes, list[int]] = {}
    missing = set(result.due)
    offsets = [0] * QUEUES
    address = await target.address()
    deadline = max(result.due.values()) / 1000 + PATIENCE
    while missing:
        before = len(missing)
        for queue in range(QUEUES):
            fields = pull_fields(TOPIC, queue, offsets[queue])
            try:
                answer = await client.request(address, Command(RequestCode.PULL_MESSAGE, fields), 10)
            except ArianeError:
                address = await target.address()
                continue
            if answer.code != ResponseCode.SUCCESS:
                continue
            for unit in decode_units(answer.body):
                offsets[queue] = unit.queue_offset + 1
                due = result.due.get(unit.body)
                if due is not None:
                    assert unit.store_time >= due, f"{unit.body!r} came {due - unit.store_time} ms early"
                    result.latest_ms = max(result.latest_ms, unit.store_time - due)
                    copies.setdefault(unit.body, []).append(unit.store_time)
                    missing.discard(unit.body)
        assert time.time() < deadline, f"{len(missing)} of {len(result.due)} are lost: {sorted(missing)[:5]}"
        if len(missing) == before:
            await asyncio.sleep(0.1)
    for body, times in copies.items():
        for first, second in itertools.pairwise(times):
            result.twice += 1
            between = any(first <= end and begin <= second for begin, end in target.changes)
            assert between, f"{body!r} was delivered twice, at {first} and {second}, without a kill between"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--span", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="timer-chaos-") as folder:
        pair = asyncio.run(run(Pair(Path(folder)), given.count * 4 // 5, given.kills * 4 // 5, given.span, given.seed))
        print(f"master and slave: {pair}", flush=True)
    with tempfile.TemporaryDirectory(prefix="timer-chaos-") as folder:
        ledger = asyncio.run(run(Ledger(Path(folder)), given.count // 5, given.kills // 5, given.span, given.seed))
        print(f"DLedger: {ledger}", flush=True)


if __name__ == "__main__":
    main()
