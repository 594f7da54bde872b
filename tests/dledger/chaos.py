"""Real processes: a group of three brokers whose leader is killed, paused and cut off again and again under load.

    python -m tests.dledger.chaos --rounds 100

At the end every member is asked for all messages: none that was acknowledged may be missing, those of one sender are in
their order, and no two are at the same queue offset.
"""

import argparse
import asyncio
import itertools
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ariane import Message, aio
from ariane.dledger.peers.wire import METADATA, Metadata
from ariane.env import SystemClock
from ariane.errors import ArianeError
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.units import decode_units
from ariane.remoting import Client
from tests.broker.talk import SMALL, pull_fields
from tests.dledger.group import until
from tests.dledger.link import Link
from tests.peers import free_port

TOPIC = "chaos"
QUEUES = 4
PATIENCE = 120.0
FAULTS = ("kill", "pause", "drop", "stall", "deaf")  # the last three by links; deaf: it is heard and hears nothing


@dataclass
class Result:
    """What a run has shown."""

    rounds: int = 0
    acknowledged: int = 0
    failed: int = 0
    failover: list[float] = field(default_factory=list)
    """Seconds from each fault to the next acknowledged send."""
    back: list[float] = field(default_factory=list)
    """Seconds from the end of each fault until the member has what the leader has."""
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {fault}" for fault, count in sorted(self.faults.items()))
        return (
            f"{self.rounds} faults ({kinds}), {self.acknowledged} acknowledged, 0 lost, {self.failed} sends failed; "
            f"first acknowledged send after a fault: median {statistics.median(self.failover):.2f} s, "
            f"longest {max(self.failover):.2f} s; member back in sync: median {statistics.median(self.back):.2f} s, "
            f"longest {max(self.back):.2f} s"
        )


class Processes:
    """A name server and three brokers, each a process."""

    def __init__(
        self, root: Path, *, homes: Mapping[str, Path] | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.root = root
        self._homes = homes or {}
        self._options = options or {}
        self.namesrv_port = free_port()
        self.peers = {id: free_port() for id in ("n0", "n1", "n2")}
        self.ports = {id: free_port(-2, 1) for id in self.peers}
        self.links = {(a, b): Link(self.peers[b]) for a in self.peers for b in self.peers if a != b}
        """How each member reaches each other one."""
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.client = Client(clock=SystemClock())

    @property
    def name_servers(self) -> str:
        return f"127.0.0.1:{self.namesrv_port}"

    def start_name_server(self) -> None:
        home = self.root / "namesrv"
        home.mkdir()
        conf = home / "namesrv.conf"
        conf.write_text(
            f"listenPort={self.namesrv_port}\nbindAddress=127.0.0.1\nrocketmqHome={home}\nkvConfigPath={home}/kv.json\n"
        )
        self.running["namesrv"] = self._start("namesrv", "namesrv", "-c", str(conf))

    def start(self, id: str) -> None:
        """Start a broker on its folder."""
        home = self._homes.get(id, self.root / id)
        home.mkdir(exist_ok=True)
        options = {
            **SMALL,
            "brokerName": "ledger",
            "namesrvAddr": self.name_servers,
            "listenPort": self.ports[id],
            "storePathRootDir": home / "store",
            "enableDLegerCommitLog": "true",
            "enablePropertyFilter": "true",
            "dLegerGroup": "ledger",
            "dLegerPeers": ";".join(f"{peer}-127.0.0.1:{self._way(id, peer)}" for peer in self.peers),
            "dLegerSelfId": id,
            **self._options,
        }
        conf = home / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        self.running[id] = self._start(id, "broker", "-c", str(conf))

    def _start(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        with (self.root / f"{name}.log").open("ab") as console:
            return subprocess.Popen(
                [sys.executable, "-m", "ariane", *arguments],
                stdout=console,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )

    def _way(self, source: str, target: str) -> int:
        """The port by which a member reaches another; its own one for itself."""
        return self.peers[target] if source == target else self.links[source, target].port

    async def start_links(self) -> None:
        for link in self.links.values():
            await link.start()

    def links_of(self, id: str) -> list[Link]:
        """All links from and to a member."""
        return [link for ends, link in self.links.items() if id in ends]

    def kill(self, id: str) -> None:
        process = self.running.pop(id)
        process.kill()
        process.wait()

    async def stop(self) -> None:
        await self.client.close()
        for link in self.links.values():
            await link.stop()
        for name in list(self.running):
            self.running[name].send_signal(signal.SIGCONT)
            self.kill(name)

    async def status(self, id: str) -> Metadata | None:
        """What a member tells about itself; None when it does not answer."""
        if id not in self.running:
            return None
        body = Metadata(group="ledger", localId="test", remoteId=id).encode()
        try:
            answer = await self.client.request(f"127.0.0.1:{self.peers[id]}", Command(METADATA, None, body), 1)
            return Metadata.decode(answer.body)
        except ArianeError:
            return None

    async def leader(self) -> str:
        """The member that serves, once there is one."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for id in self.peers:
                    status = await self.status(id)
                    if status is not None and status.ariane is not None and status.ariane.serving:
                        return id
                await asyncio.sleep(0.05)

    async def back(self, id: str) -> None:
        """Wait until a member has about all that the leader has, so that the next fault leaves a majority."""
        async with asyncio.timeout(PATIENCE):
            while True:
                leader, own = await self.status(await self.leader()), await self.status(id)
                if leader is not None and own is not None and leader.ariane is not None and own.ariane is not None:
                    near = own.ariane.endIndex >= leader.ariane.committedIndex - 100
                    if near and own.term == leader.term and own.leaderId is not None:
                        return
                await asyncio.sleep(0.05)

    async def in_sync(self) -> None:
        """Wait until all members have committed the same entries."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = [await self.status(id) for id in self.peers]
                ends = {(s.ariane.endIndex, s.ariane.committedIndex) for s in found if s is not None and s.ariane}
                if None not in found and len(ends) == 1 and all(end == commit for end, commit in ends):
                    return
                await asyncio.sleep(0.1)

    async def messages(self, id: str, queue: int, topic: str = TOPIC) -> list[tuple[int, str]]:
        """Queue offsets and bodies that a member serves; a restarted follower learns its topics first."""
        found: list[tuple[int, str]] = []
        async with asyncio.timeout(PATIENCE):
            while True:
                fields = pull_fields(topic, queue, len(found))
                address = f"127.0.0.1:{self.ports[id]}"
                answer = await self.client.request(address, Command(RequestCode.PULL_MESSAGE, fields), 10)
                if answer.code == ResponseCode.PULL_NOT_FOUND:
                    return found
                if answer.code == ResponseCode.SUCCESS:
                    found += [(unit.queue_offset, unit.body.decode()) for unit in decode_units(answer.body)]
                else:
                    await asyncio.sleep(0.2)


async def run(root: Path, rounds: int, seed: int, *, senders: int = 4, faults: Sequence[str] = FAULTS) -> Result:
    """Torment a group; AssertionError when it breaks a promise."""
    chance = random.Random(seed)
    group, result = Processes(root), Result()
    acknowledged: list[list[str]] = [[] for _ in range(senders)]
    progress, ending = [0], asyncio.Event()

    async def sender(number: int) -> None:
        async with aio.Producer(
            f"sender{number}", name_servers=group.name_servers, send_timeout=3.0, retries=0, route_interval=0.1
        ) as producer:
            for n in itertools.count():
                if ending.is_set():
                    return
                body = f"{number}-{n}"  # never sent twice: an unknown outcome is not tried again
                try:
                    await producer.send(Message(TOPIC, body.encode()))
                    acknowledged[number].append(body)
                    progress[0] += 1
                except ArianeError:
                    result.failed += 1
                    await asyncio.sleep(0.02)

    try:
        await group.start_links()
        group.start_name_server()
        for id in group.peers:
            group.start(id)
        await group.leader()
        tasks = [asyncio.create_task(sender(number)) for number in range(senders)]
        for _ in range(rounds):
            before = progress[0]
            await until(lambda least=before + 50: progress[0] >= least)  # type: ignore[misc]
            id, fault = await group.leader(), chance.choice(faults)
            at, before = time.monotonic(), progress[0]
            begin_fault(group, id, fault)
            # Those on the way may be acknowledged still.
            await until(lambda least=before + senders: progress[0] > least)  # type: ignore[misc]
            result.failover.append(time.monotonic() - at)
            at = time.monotonic()
            end_fault(group, id, fault)
            result.faults[fault] += 1
            result.rounds += 1
            await group.back(id)
            result.back.append(time.monotonic() - at)
        ending.set()
        await asyncio.gather(*tasks)
        await group.in_sync()
        result.acknowledged = sum(map(len, acknowledged))
        await check(group, acknowledged)
    finally:
        ending.set()
        await group.stop()
    return result


def begin_fault(group: Processes, id: str, fault: str) -> None:
    """Kill a member, suspend it, or cut its links; clients and the name server still reach a member without links."""
    if fault == "kill":
        group.kill(id)
    elif fault == "pause":
        os.kill(group.running[id].pid, signal.SIGSTOP)
    elif fault == "drop":
        for link in group.links_of(id):
            link.drop()
    elif fault == "stall":
        for link in group.links_of(id):
            link.stall()
    else:
        for (_, target), link in group.links.items():
            if target == id:
                link.stall()


def end_fault(group: Processes, id: str, fault: str) -> None:
    """Let the member take part again."""
    if fault == "kill":
        group.start(id)
    elif fault == "pause":
        os.kill(group.running[id].pid, signal.SIGCONT)
    for link in group.links_of(id):
        link.heal()


async def check(group: Processes, acknowledged: list[list[str]]) -> None:
    """Compare what the members serve with what was acknowledged."""
    views = []
    for id in group.peers:
        queues = [await group.messages(id, queue) for queue in range(QUEUES)]
        for queue in queues:
            offsets = [offset for offset, _ in queue]
            assert offsets == list(range(len(offsets))), f"{id}: an offset is missing or there twice"
        bodies = [body for queue in queues for _, body in queue]
        assert len(bodies) == len(set(bodies)), f"{id}: a message is there twice"
        lost = {body for sender in acknowledged for body in sender} - set(bodies)
        assert not lost, f"{id}: lost {sorted(lost)[:10]} of {sum(map(len, acknowledged))}"
        for queue in queues:
            for number in range(len(acknowledged)):
                own = [int(body.split("-")[1]) for _, body in queue if body.startswith(f"{number}-")]
                assert own == sorted(own), f"{id}: the messages of sender {number} are out of order"
        views.append(queues)
    assert views[0] == views[1] == views[2], "members serve different messages"


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dledger-chaos-") as folder:
        print(f"seed {arguments.seed}")
        print(asyncio.run(run(Path(folder), arguments.rounds, arguments.seed)))


if __name__ == "__main__":
    main()
